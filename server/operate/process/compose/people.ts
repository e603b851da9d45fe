/** The parts of a process that serve people: who they are, and what they manage. */
import { Cors } from '../../../base/http/cors.ts';
import type { Exchange } from '../../../base/http/exchange.ts';
import { overLimit } from '../../../base/http/rate-limit.ts';
import { policyOf } from '../../../base/ratelimit/limiter.ts';
import { accountOperations } from '../../../manage/api/account/account-operations.ts';
import { signInOperations } from '../../../manage/api/account/sign-in-operations.ts';
import { Idempotency } from '../../../manage/api/idempotency.ts';
import { openApiDocument } from '../../../manage/api/openapi/document.ts';
import { openApiOperations } from '../../../manage/api/openapi/openapi-operations.ts';
import { databaseOperations, type Operations, type OtherOperations } from '../../../manage/api/operations.ts';
import type { OperationTable } from '../../../manage/api/routes.ts';
import { type Confirm, Runner } from '../../../manage/api/runner.ts';
import { Api, recognizeNetwork } from '../../../manage/api/serve.ts';
import { createTest } from '../../../manage/api/webhooks/test-request.ts';
import type { AgentAuth } from '../../../manage/auth/agent.ts';
import { AnonymousLimit } from '../../../manage/auth/anonymous.ts';
import { Csrf } from '../../../manage/auth/csrf.ts';
import { DeviceCookies } from '../../../manage/auth/device-cookies.ts';
import { recognizeLocal } from '../../../manage/auth/local.ts';
import { Passwords } from '../../../manage/auth/password-hash.ts';
import { cookieName, People } from '../../../manage/auth/people.ts';
import { confirmIdentity } from '../../../manage/auth/step-up.ts';
import { createMcp, OpenCalls } from '../../../manage/mcp/endpoint.ts';
import { OAuth } from '../../../manage/oauth/oauth.ts';
import { derivedKeys, isReplaced } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';
import type { Oidc } from './oidc.ts';

export type ComposedPeople = Awaited<ReturnType<typeof composePeople>>;

/** Builds these parts. @param ownUrl origin of the port that this process listens on. */
export async function composePeople(base: Base, agentAuth: AgentAuth, others: OtherOperations, ownUrl: () => string) {
  const { settings, keys, metrics, database, limiter } = base;
  const oidc = await openHostedSignIn(base);
  const csrf = new Csrf(derivedKeys(keys, 'csrf')[0]!, [
    settings.PUBLIC_URL,
    settings.FRONTEND_PUBLIC_API_URL,
    ...settings.CORS_ORIGINS,
  ]);
  const openPolicy = policyOf('SIGN_IN', settings);
  const overOpenLimit = (exchange: Exchange) => overLimit(exchange, limiter, openPolicy);
  const cookie = cookieName(settings.PUBLIC_URL);
  const people = new People({ database, cookie, readJwt: oidc.readJwt });
  const anonymous = new AnonymousLimit({ limiter, people, agentAuth, policy: policyOf('ANONYMOUS', settings) });
  const hosted = settings.AUTH_MODE === 'hosted';
  const passwords = new Passwords(() => metrics.add('weir_password_hashes_total'));
  metrics.gauge('weir_password_requests', () => passwords.admitted);
  const devices = new DeviceCookies(settings.PUBLIC_URL, derivedKeys(keys, 'device-cookies')[0]!);
  const signInParts = { database, passwords, publicUrl: settings.PUBLIC_URL, devices, csrf, hosted };
  const document = () => openApiDocument({ operations, url: settings.FRONTEND_PUBLIC_API_URL, cookie });
  const sendTest = createTest(database, derivedKeys(keys, 'webhook-secrets'), ownUrl, settings.FRONTEND_PUBLIC_API_URL);
  const idempotency = new Idempotency(database, derivedKeys(keys, 'idempotency'));
  const operations: Operations = {
    ...openApiOperations(() => JSON.stringify(document())),
    ...signInOperations({
      ...signInParts,
      setupKey: derivedKeys(keys, 'setup')[0]!,
      signOutAddress: oidc.signOutAddress,
    }),
    ...accountOperations(signInParts),
    ...databaseOperations({ ...base, passwords }, sendTest),
    ...others,
  } satisfies OperationTable;
  const calls = new OpenCalls(database);
  const confirm: Confirm = (...asked) => confirmIdentity(signInParts, ...asked);
  const runner = new Runner(operations, idempotency, confirm);
  const issuer = settings.PUBLIC_URL;
  const isKeyReplaced = () => isReplaced(database, keys[0]!);
  const resource = { issuer, resource: `${issuer}/mcp`, keys: derivedKeys(keys, 'oauth-tokens'), isKeyReplaced };
  const oauth = settings.OAUTH_ENABLED ? new OAuth({ database, ...resource, limiter, anonymous, agentAuth }) : null;
  return {
    people,
    csrf,
    operations,
    runner,
    oidc,
    overOpenLimit,
    anonymous,
    calls,
    oauth,
    confirm,
    mcp: createMcp({ oauth, runner, calls, people, agentAuth, csrf, database, log: base.log, settings }),
    api: new Api({
      runner,
      operations,
      recognize: recognizeNetwork({ people, agentAuth, csrf, overOpenLimit, anonymous }),
      csrf,
      anonymous,
    }),
    /** Serves the local administrator. */
    localApi: new Api({ runner, operations, recognize: recognizeLocal, csrf, anonymous }),
    cors: new Cors(settings.CORS_ORIGINS),
  };
}

/** Hosted sign-in; null in its parts if AUTH_MODE is `local`, which loads no module of OpenID Connect. */
async function openHostedSignIn(base: Base): Promise<Oidc> {
  if (base.settings.AUTH_MODE === 'local') return { signIn: null, readJwt: null, signOutAddress: async () => null };
  const { composeOidc } = await import('./oidc.ts');
  return composeOidc(base);
}
