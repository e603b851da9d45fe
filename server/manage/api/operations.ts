/** The types of all operations. Each keeps its own types of query, input and answers, so that a page gets typed bodies. */
import type { accountOperations } from './account/account-operations.ts';
import type { signInOperations } from './account/sign-in-operations.ts';
import type { ownAgentOperations } from './agent/own-agent-operations.ts';
import type { agentOperations } from './agents/agent-operations.ts';
import type { auditOperations } from './audit/audit-operations.ts';
import type { cellOperations } from './cells/cell-operations.ts';
import type { deliveryOperations } from './deliveries/delivery-operations.ts';
import type { eventOperations } from './events/event-operations.ts';
import type { filterOperations } from './filters/filter-operations.ts';
import type { historyOperations } from './history/history-operations.ts';
import type { alertOperations, issueOperations } from './issues/issue-operations.ts';
import type { jobOperations } from './jobs/job-operations.ts';
import type { openApiOperations, schemeOperations } from './openapi/openapi-operations.ts';
import type { rejectionOperations } from './rejections/rejection-operations.ts';
import type { liveOperations, statusOperations } from './status/status-operations.ts';
import type { tokenOperations } from './tokens/token-operations.ts';
import type { userOperations } from './users/user-operations.ts';
import type { webhookOperations } from './webhooks/webhook-operations.ts';

/** Operations that need parts of the process other than those of users. */
export type OtherOperations = ReturnType<typeof ownAgentOperations> &
  ReturnType<typeof filterOperations> &
  ReturnType<typeof eventOperations> &
  ReturnType<typeof rejectionOperations> &
  ReturnType<typeof liveOperations> &
  ReturnType<typeof issueOperations>['operations'] &
  ReturnType<typeof alertOperations> &
  ReturnType<typeof statusOperations>;

export type Operations = OtherOperations &
  ReturnType<typeof openApiOperations> &
  ReturnType<typeof signInOperations> &
  ReturnType<typeof accountOperations> &
  ReturnType<typeof userOperations> &
  ReturnType<typeof webhookOperations> &
  typeof schemeOperations &
  ReturnType<typeof agentOperations> &
  ReturnType<typeof historyOperations> &
  ReturnType<typeof jobOperations> &
  ReturnType<typeof deliveryOperations> &
  ReturnType<typeof cellOperations> &
  ReturnType<typeof tokenOperations> &
  ReturnType<typeof auditOperations>;
