/** The parts of a process that serve people: who they are, and what they manage. */
import { Api } from '../api/serve.ts';
import type { AgentAuth } from '../auth/agent.ts';
import { Csrf } from '../auth/csrf.ts';
import { cookieName, People } from '../auth/people.ts';
import { Cors } from '../http/cors.ts';
import { derivedKeys } from '../keys.ts';
import { accountOperations } from '../manage/account.ts';
import { auditOperations } from '../manage/audit-operations.ts';
import { deliveryOperations } from '../manage/deliveries.ts';
import { eventOperations } from '../manage/events.ts';
import { tokenOperations } from '../manage/token-operations.ts';
import type { Operations } from '../routes.ts';
import type { Base } from './base.ts';

export function composePeople({ settings, keys, database }: Base, agentAuth: AgentAuth) {
  const csrf = new Csrf(derivedKeys(keys, 'csrf')[0]!, [
    settings.PUBLIC_URL,
    settings.FRONTEND_PUBLIC_API_URL,
    ...settings.CORS_ORIGINS,
  ]);
  const people = new People({ database, cookie: cookieName(settings.PUBLIC_URL), readJwt: null });
  const operations: Operations = {
    ...accountOperations({ csrf }),
    ...eventOperations(database),
    ...deliveryOperations(database),
    ...tokenOperations(database),
    ...auditOperations(database),
  };
  return { people, csrf, operations, api: new Api({ people, agentAuth, csrf }), cors: new Cors(settings.CORS_ORIGINS) };
}
