/** The types of all operations. Each keeps its own types of query, input and answers, so that a page gets typed bodies. */
import type { accountOperations } from './account/operations.ts';
import type { signInOperations } from './account/sign-in-operations.ts';
import type { ownAgentOperations } from './agent/operations.ts';
import type { agentOperations } from './agents/operations.ts';
import type { alertOperations } from './alerts/operations.ts';
import type { auditOperations } from './audit/operations.ts';
import type { cellOperations } from './cells/operations.ts';
import type { deliveryOperations } from './deliveries/operations.ts';
import type { eventOperations } from './events/operations.ts';
import type { filterOperations } from './filters/operations.ts';
import type { historyOperations } from './history/operations.ts';
import type { issueOperations } from './issues/operations.ts';
import type { jobOperations } from './jobs/operations.ts';
import type { liveOperations } from './live/operations.ts';
import type { openApiOperations } from './openapi/operations.ts';
import type { rejectionOperations } from './rejections/operations.ts';
import type { schemeOperations } from './schemes/operations.ts';
import type { statusOperations } from './status/operations.ts';
import type { tokenOperations } from './tokens/operations.ts';
import type { userOperations } from './users/operations.ts';
import type { webhookOperations } from './webhooks/operations.ts';

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
