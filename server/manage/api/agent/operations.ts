/** /api/v1/agent: the session of an agent, and its deliveries. */
import type { z } from 'zod';
import { release } from '../../../base/files/build.ts';
import { releaseOf } from '../../../base/net/releases.ts';
import { type createClaim, inOutage } from '../../../deliver/claims/claim.ts';
import { type createSettle, joinedAnswer } from '../../../deliver/claims/settle.ts';
import { COUNTED_MAX } from '../../../model/events.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { readWaiting } from '../../../store/queries/agents/activity.ts';
import type { Agent } from '../../../store/queries/agents/agents.ts';
import type { Settlement } from '../../../store/queries/claims/settle.ts';
import { countDeliveries } from '../../../store/queries/deliveries/counts.ts';
import { readDatabaseClock } from '../../../store/queries/server-state.ts';
import { AGENT_SESSION_SECONDS, type AgentAuth, bearer } from '../../auth/agent.ts';
import { agentOperation, done, openOperation } from '../operation.ts';
import {
  ackInput,
  claimedSchema,
  claimInput,
  extendInput,
  meSchema,
  nackInput,
  type Refusal,
  sessionInput,
  sessionSchema,
  settledSchema,
} from './schema.ts';

interface AgentParts {
  database: Database;
  auth: AgentAuth;
  claims: ReturnType<typeof createClaim>;
  settle: ReturnType<typeof createSettle>;
  /** An agent opened a session with a client of another release. */
  onOtherClient: (agentId: string, release: string) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

const claimedNothing = { kind: 'claimed', deliveries: '[]', settled: null } as const;

export function ownAgentOperations({ database, auth, claims, settle, onOtherClient, attemptsMax }: AgentParts) {
  function settlementOf({ delay_seconds, reason, release: isReleased }: Refusal): Settlement {
    if (isReleased) return { kind: 'release' };
    return { kind: 'nack', delaySeconds: delay_seconds ?? null, reason: reason ?? null, attemptsMax };
  }

  /** Returns null when the claim settles nothing. Equal refusals share a statement. */
  async function settleWithClaim(who: Agent, { ack = [], nack = [] }: z.output<typeof claimInput>) {
    if (ack.length + nack.length === 0) return null;
    const parts = ack.length === 0 ? [] : [await settle(who, ack, { kind: 'ack' })];
    const equal = new Map<string, { receipts: string[]; refusal: Refusal }>();
    for (const { receipt, ...refusal } of nack) {
      const key = JSON.stringify(refusal);
      const known = equal.get(key);
      if (known === undefined) equal.set(key, { receipts: [receipt], refusal });
      else known.receipts.push(receipt);
    }
    for (const { receipts, refusal } of equal.values()) parts.push(await settle(who, receipts, settlementOf(refusal)));
    return joinedAnswer(parts);
  }

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
      handle: async ({ who: { id, name } }) => {
        const [{ pending }, [waiting], databaseNowMs] = await Promise.all([
          countDeliveries(database, { agentId: id }, { waiting: COUNTED_MAX, dead: 0 }),
          readWaiting(database, [id]),
          readDatabaseClock(database),
        ]);
        const waitedMs = waiting === undefined ? null : Math.max(0, databaseNowMs - Date.parse(waiting.since));
        const waitedSeconds = waitedMs === null ? null : Math.round(waitedMs / 1000);
        return done(200, { id, name, pending, oldest_pending_seconds: waitedSeconds });
      },
    }),

    /** Settles what the agent has finished, then waits up to `wait_seconds` if there are no deliveries. */
    claim: agentOperation({
      input: claimInput,
      answers: { 200: claimedSchema },
      handle: async ({ who, input, exchange }) => {
        const { max, lease_seconds: leaseSeconds, wait_seconds: waitSeconds, webhook_ids: webhookIds = null } = input;
        // Refusals take statements of their own.
        const ack = claims.acknowledges(who) && input.nack === undefined ? (input.ack ?? []) : [];
        const before = ack.length > 0 ? null : await settleWithClaim(who, input);
        const claiming = claims.claim(exchange, who, { max, leaseSeconds, waitSeconds, webhookIds, ack });
        const claimed = await (before === null ? claiming : claiming.catch(inOutage(claimedNothing)));
        if (claimed.kind === 'gone') return claimed;
        const settled = before ?? claimed.settled;
        // Already JSON: the schema would copy up to 16 MiB of bodies.
        const rest = settled === null ? '' : `,"settled":${JSON.stringify(settled)}`;
        const content = `{"deliveries":${claimed.deliveries}${rest}}`;
        return { kind: 'encoded', status: 200, contentType: 'application/json', content };
      },
    }),

    ack: agentOperation({
      input: ackInput,
      answers: { 200: settledSchema },
      handle: async ({ who, input }) => done(200, await settle(who, input.receipts, { kind: 'ack' })),
    }),

    nack: agentOperation({
      input: nackInput,
      answers: { 200: settledSchema },
      handle: async ({ who, input: { receipts, ...refusal } }) =>
        done(200, await settle(who, receipts, settlementOf(refusal))),
    }),

    extend: agentOperation({
      input: extendInput,
      answers: { 200: settledSchema },
      handle: async ({ who, input }) =>
        done(200, await settle(who, input.receipts, { kind: 'extend', leaseSeconds: input.lease_seconds })),
    }),
  };
}
