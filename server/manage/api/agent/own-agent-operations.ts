/** /api/v1/agent: the session of an agent, and its deliveries. */
import { release } from '../../../base/files/build.ts';
import { releaseOf } from '../../../base/net/releases.ts';
import type { createClaim } from '../../../deliver/claims/claim.ts';
import type { createSettle } from '../../../deliver/claims/settle.ts';
import { COUNTED_MAX } from '../../../model/events.ts';
import { isUnverified } from '../../../model/webhook-schemes.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { readWaiting } from '../../../store/queries/agents/activity.ts';
import { readWebhooksOf } from '../../../store/queries/agents/subscriptions.ts';
import { countDeliveries } from '../../../store/queries/deliveries/counts.ts';
import { readDatabaseClock } from '../../../store/queries/server-state.ts';
import { AGENT_SESSION_SECONDS, type AgentAuth, bearer } from '../../auth/agent.ts';
import { agentOperation, done, openOperation } from '../operation.ts';
import {
  AGENT_WEBHOOKS_MAX,
  ackInput,
  claimedSchema,
  claimInput,
  extendInput,
  meSchema,
  nackInput,
  sessionInput,
  sessionSchema,
  settledSchema,
} from './schema.ts';

interface AgentParts {
  database: Database;
  auth: AgentAuth;
  claim: ReturnType<typeof createClaim>;
  settlements: ReturnType<typeof createSettle>;
  /** An agent opened a session with a client of another release. */
  onOtherClient: (agentId: string, release: string) => void;
}

/** `agentSession` checks the credential itself; the others get the authenticated agent. */
export function ownAgentOperations({ database, auth, claim, settlements, onOtherClient }: AgentParts) {
  return {
    /** Exchanges a credential, sent in the body or as the bearer token, for a session. */
    agentSession: openOperation({
      input: sessionInput,
      answers: { 200: sessionSchema },
      handle: async ({ input, exchange }) => {
        const known = await auth.byCredential(exchange, input.credential ?? bearer(exchange));
        if (known.kind === 'problem') return known;
        const { id, name } = known.agent;
        const client = releaseOf(exchange.header('user-agent'));
        if (client !== null && client !== release()) onOtherClient(id, client);
        return done(200, {
          access_token: auth.session(known.agent, Date.now()),
          token_type: 'Bearer' as const,
          expires_in: AGENT_SESSION_SECONDS,
          agent: { id, name },
        });
      },
    }),

    agentMe: agentOperation({
      answers: { 200: meSchema },
      handle: async ({ who: { id, name, paused } }) => {
        const [{ pending }, [waiting], databaseNowMs, subscribed] = await Promise.all([
          countDeliveries(database, { agentId: id }, { waiting: COUNTED_MAX, dead: 0 }),
          readWaiting(database, [id]),
          readDatabaseClock(database),
          readWebhooksOf(database, id, AGENT_WEBHOOKS_MAX),
        ]);
        const waitedMs = waiting === undefined ? null : Math.max(0, databaseNowMs - Date.parse(waiting.since));
        const waitedSeconds = waitedMs === null ? null : Math.round(waitedMs / 1000);
        const webhooks = subscribed.map((one) => ({ id: one.id, name: one.name, verified: !isUnverified(one) }));
        return done(200, { id, name, pending, oldest_pending_seconds: waitedSeconds, webhooks, paused });
      },
    }),

    /** Settles what the agent has finished, then waits up to `wait_seconds` if there are no deliveries. */
    claim: agentOperation({
      input: claimInput,
      answers: { 200: claimedSchema },
      handle: async ({ who, input, exchange }) => {
        const { max, lease_seconds: leaseSeconds, wait_seconds: waitSeconds, webhook_ids: webhookIds = null } = input;
        const { ack = [], nack = [] } = input;
        const claimed = await claim(exchange, who, { max, leaseSeconds, waitSeconds, webhookIds, ack, nack });
        if (claimed.kind === 'gone') return claimed;
        const { deliveries, settled } = claimed;
        // Already JSON: the schema would copy up to 16 MiB of bodies.
        const content = `{"deliveries":${deliveries}${settled === null ? '' : `,"settled":${JSON.stringify(settled)}`}}`;
        return { kind: 'encoded', status: 200, contentType: 'application/json', content };
      },
    }),

    ack: agentOperation({
      input: ackInput,
      answers: { 200: settledSchema },
      handle: async ({ who, input }) => done(200, await settlements.settle(who, input.receipts, { kind: 'ack' })),
    }),

    nack: agentOperation({
      input: nackInput,
      answers: { 200: settledSchema },
      handle: async ({ who, input }) => done(200, await settlements.refuse(who, input.receipts, input)),
    }),

    extend: agentOperation({
      input: extendInput,
      answers: { 200: settledSchema },
      handle: async ({ who, input }) =>
        done(200, await settlements.settle(who, input.receipts, { kind: 'extend', leaseSeconds: input.lease_seconds })),
    }),
  };
}
