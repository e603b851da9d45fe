/** All operations. Each keeps its own types of query, input and answers, so that a page gets typed bodies. */
import type { Settings } from '../../base/settings/read.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import type { Passwords } from '../auth/password-hash.ts';
import type { accountOperations } from './account/account-operations.ts';
import type { signInOperations } from './account/sign-in-operations.ts';
import type { ownAgentOperations } from './agent/own-agent-operations.ts';
import { agentOperations } from './agents/agent-operations.ts';
import { auditOperations } from './audit/audit-operations.ts';
import { cellOperations } from './cells/cell-operations.ts';
import type { ChangeParts } from './change.ts';
import { deliveryOperations } from './deliveries/delivery-operations.ts';
import type { eventOperations } from './events/event-operations.ts';
import type { filterOperations } from './filters/filter-operations.ts';
import { historyOperations } from './history/history-operations.ts';
import type { alertOperations, issueOperations } from './issues/issue-operations.ts';
import { jobOperations } from './jobs/job-operations.ts';
import { type openApiOperations, schemeOperations } from './openapi/openapi-operations.ts';
import type { Success } from './operation.ts';
import type { rejectionOperations } from './rejections/rejection-operations.ts';
import type { liveOperations, statusOperations } from './status/status-operations.ts';
import { tokenOperations } from './tokens/token-operations.ts';
import { userOperations } from './users/user-operations.ts';
import type { SendTest } from './webhooks/test-request.ts';
import { webhookOperations } from './webhooks/webhook-operations.ts';

interface DatabaseParts extends ChangeParts {
  settings: Settings;
  cells: Cells;
  keys: SecretsKeys;
  passwords: Passwords;
}

/** The operations that need the database alone, which a command may run without a Weir that serves. */
export function databaseOperations({ settings, keys, passwords, ...parts }: DatabaseParts, sendTest: SendTest) {
  const { database } = parts;
  return {
    ...userOperations({ database, passwords, hosted: settings.AUTH_MODE === 'hosted', publicUrl: settings.PUBLIC_URL }),
    ...webhookOperations({ ...parts, key: derivedKeys(keys, 'webhook-secrets')[0]! }, settings, sendTest),
    ...cellOperations({ ...parts, key: derivedKeys(keys, 'cells')[0]! }, settings),
    ...schemeOperations,
    ...agentOperations(parts),
    ...historyOperations(database),
    ...jobOperations(database),
    ...deliveryOperations(database),
    ...tokenOperations(database),
    ...auditOperations(database),
  };
}

/** Those that need other parts of a process. */
export type OtherOperations = ReturnType<typeof ownAgentOperations> &
  ReturnType<typeof filterOperations> &
  ReturnType<typeof eventOperations> &
  ReturnType<typeof rejectionOperations> &
  ReturnType<typeof liveOperations> &
  ReturnType<typeof issueOperations>['operations'] &
  ReturnType<typeof alertOperations> &
  ReturnType<typeof statusOperations>;

export type Operations = OtherOperations &
  ReturnType<typeof databaseOperations> &
  ReturnType<typeof openApiOperations> &
  ReturnType<typeof signInOperations> &
  ReturnType<typeof accountOperations>;

/** The body of a success of an operation; null for 204. */
export type BodyOf<Name extends keyof Operations> = Success<Operations[Name]['answers']>['body'];
