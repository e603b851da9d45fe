/** The security schemes of the document. */

import type { Method } from '../../../base/http/route.ts';
import { CSRF_HEADER } from '../../auth/csrf.ts';
import type { OperationAccess } from '../routes.ts';
import type { Json } from './schemas.ts';

/** @param cookie name of the session cookie. */
export function securitySchemes(cookie: string): Json {
  return {
    session: { type: 'apiKey', in: 'cookie', name: cookie, description: 'session of a signed-in user' },
    csrf: {
      type: 'apiKey',
      in: 'header',
      name: CSRF_HEADER,
      description: 'required with a session cookie for every change: csrf_token of GET /api/v1/account',
    },
    token: {
      type: 'http',
      scheme: 'bearer',
      description:
        'an API token wu_…, or a JWT of the OpenID Connect provider. A token may revoke itself and the tokens that it created; it cannot change anything else of its own user, and cannot create a token for an administrator or without an expiry (403 `session_required`).',
    },
    agent: { type: 'http', scheme: 'bearer', description: 'a session ws_… or the credential wa_… of an agent' },
    signature: {
      type: 'apiKey',
      in: 'header',
      name: 'X-Hub-Signature-256',
      description:
        'sha256= and the HMAC-SHA256 of the body in hex, in this header, in X-Webhook-Signature, or in the signature_header of the webhook. A webhook without a secret requires no signature.',
    },
  };
}

/** Security by access of a plain route. */
export const plainSecurity: Readonly<Record<string, Json[]>> = {
  anyone: [],
  signature: [{ signature: [] }, {}],
};

/** Alternatives: any one of them is sufficient. */
export function securityOf(method: Method, access: OperationAccess, sessionOnly: boolean): Json[] {
  if (access === 'anyone') return [];
  if (access === 'agent' || access === 'agent credential') return [{ agent: [] }];
  const session = method === 'GET' ? { session: [] } : { session: [], csrf: [] };
  if (sessionOnly) return [session];
  return [session, { token: [] }, ...(access === 'viewer or agent' ? [{ agent: [] }] : [])];
}
