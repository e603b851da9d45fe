/**
 * A request for deliveries, from its settlements to its answer:
 *
 *     settle what the agent has finished -> round -> deliveries, or wait for a commit -> round -> ...
 *
 * A round (round.ts) leases what can be claimed now, for a paused agent nothing. If an agent has neither `max_leased`, filters nor an
 * order, and there is one cell, its first round acknowledges in the statement that leases. An ordered agent needs two statements: a delivery
 * that an acknowledgement frees can be leased only by a later statement.
 */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Spans } from '../../base/telemetry/spans.ts';
import { readStoredHeaders } from '../../model/signatures/stored-headers.ts';
import type { CellList } from '../../store/cells/cells-database.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import type { Directory } from '../../store/directory.ts';
import { uuidv7Time } from '../../store/ids.ts';
import { type ActiveAgent, isValidFor } from '../../store/queries/agents/active-agents.ts';
import type { Claimed } from '../../store/queries/claims/order.ts';
import { receiptText } from '../../store/queries/claims/receipts.ts';
import { settleDeliveries } from '../../store/queries/claims/settle.ts';
import { bytesOf, utf8Of } from '../../store/sql.ts';
import { claimRound, nothingClaimed, type Round, type RoundParts } from './round.ts';
import { type createSettle, knownReceipts, type ReceiptsAnswer, type Refusal } from './settle.ts';
import type { WaitingClaims } from './waiting-claims.ts';

interface ClaimRequest {
  max: number;
  leaseSeconds: number;
  /** How long to wait when no delivery can be claimed. */
  waitSeconds: number;
  /** Only deliveries of these webhooks; null: all. */
  webhookIds: readonly string[] | null;
  /** Receipts to acknowledge before the claim. */
  ack: readonly string[];
  /** Deliveries to refuse before the claim. */
  nack: readonly (Refusal & { receipt: string })[];
}

/**
 * `deliveries`: JSON array. `settled`: null without `ack` and `nack`. `gone`: the agent disconnected or cancelled, and its deliveries are
 * released.
 */
type ClaimOutcome = { kind: 'claimed'; deliveries: string; settled: ReceiptsAnswer | null } | { kind: 'gone' };

/** Total body bytes in one answer. Bounds the memory of a claim in this process and in the agent. */
const CLAIM_BYTES_MAX = 16_777_216;

interface ClaimParts extends RoundParts {
  agents: Directory<ActiveAgent>;
  cells: Pick<CellList, 'all' | 'known'>;
  waiting: WaitingClaims;
  settlements: ReturnType<typeof createSettle>;
  onClaimed: (agentId: string, claimed: readonly Claimed[]) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
  /** Null: nothing is traced. */
  spans: Pick<Spans, 'delivered'> | null;
}

/**
 * Creates the function that serves a claim. That function rejects when the settlements fail. If the database becomes unavailable after them,
 * it claims nothing, so that the agent gets their outcome.
 */
export function createClaim(parts: ClaimParts) {
  const { database, agents, cells, waiting, settlements, attemptsMax, spans } = parts;
  const oneAtATime = queues();
  return async function claim(exchange: Exchange, agent: ActiveAgent, request: ClaimRequest): Promise<ClaimOutcome> {
    const { max, leaseSeconds, webhookIds, ack, nack } = request;
    const untilMs = performance.now() + request.waitSeconds * 1000;
    /** When the last round began, Unix milliseconds; only for spans. */
    let startMs = 0;
    const { address } = exchange.client;
    const order = { max, leaseSeconds, webhookIds, address, bytesMax: CLAIM_BYTES_MAX, attemptsMax };
    const round = (current: ActiveAgent, acks = knownReceipts([])): Round | Promise<Round> => {
      if (current.paused) return nothingClaimed;
      // The credential may have been rotated during the wait, with an overlap.
      const isValid = isValidFor(current, agent.previousGeneration ?? agent.generation, Date.now());
      const generation = isValid ? current.generation : agent.generation;
      // Skip the claim of a client that has left: its leases would only be released, and the claims behind it wait for them.
      const run = () => {
        if (exchange.isGone) return nothingClaimed;
        if (spans !== null) startMs = Date.now();
        return claimRound(parts, current, { ...order, generation }, acks);
      };
      return isOneStatement(current) ? run() : oneAtATime(agent.id, run);
    };
    const settlesInRound =
      ack.length > 0 &&
      nack.length === 0 &&
      isOneStatement(agent) &&
      !agent.ordered &&
      cells.known &&
      cells.all().length === 1;
    let settled = settlesInRound ? null : await settlements.settleAll(agent, request);
    const waits = request.waitSeconds > 0 ? waiting.join(agent) : null;
    try {
      let found = await unlessAway(settled !== null, round(agent, settlesInRound ? knownReceipts(ack) : []));
      if (settlesInRound) settled = settlements.answer(agent, ack, found.settled);
      while (found.claimed.length === 0 && !exchange.isGone && !exchange.draining) {
        const leftMs = untilMs - performance.now();
        if (leftMs <= 0) break;
        if (found.complete) await waits!.wait(leftMs, (end) => exchange.whenGone(end));
        exchange.clock.skip();
        if (exchange.isGone) break;
        // The limit, the filters and the pause may have been changed during the wait.
        const current = (await agents.find(agent.id, Date.now())) ?? agent;
        found = await unlessAway(true, round(current));
      }
      const { claimed } = found;
      if (exchange.isGone) {
        if (claimed.length > 0) await settleDeliveries(database, agent.id, claimed.map(receiptOf), { kind: 'release' });
        return { kind: 'gone' };
      }
      if (claimed.length > 0) parts.onClaimed(agent.id, claimed);
      const deliveries = claimed.map(deliveryOf);
      if (spans !== null)
        for (const delivery of deliveries) delivery.traceparent = spans.delivered(delivery, agent.id, startMs);
      return { kind: 'claimed', deliveries: JSON.stringify(deliveries), settled };
    } finally {
      waits?.leave();
    }
  };
}

/** Whether a claim of the agent in one cell is one statement. */
function isOneStatement({ maxLeased, filtered, paused }: ActiveAgent): boolean {
  return maxLeased === null && !filtered && !paused;
}

/**
 * Returns what a round found. If `isLenient`, a round that fails because the database is unavailable found nothing: the agent must get the
 * outcome of its settlements, and a claim that waits continues to wait. If the outage lasts, the next claim reports it.
 */
async function unlessAway(isLenient: boolean, round: Round | Promise<Round>): Promise<Round> {
  try {
    return await round;
  } catch (error) {
    if (isLenient && error instanceof DatabaseUnavailable) return nothingClaimed;
    throw error;
  }
}

/**
 * Runs the rounds of each agent one after another. Concurrent rounds of an agent with `max_leased` would wait for its lock, each with a
 * connection of the pool. Concurrent rounds of an agent with filters would judge the same deliveries.
 */
function queues() {
  const last = new Map<string, Promise<unknown>>();
  return async function oneAtATime<T>(agentId: string, work: () => T | Promise<T>): Promise<T> {
    const turn = (last.get(agentId) ?? Promise.resolve()).then(work, work);
    last.set(agentId, turn);
    try {
      return await turn;
    } finally {
      if (last.get(agentId) === turn) last.delete(agentId);
    }
  };
}

function receiptOf({ id, lease }: Claimed) {
  return { deliveryId: id, lease };
}

function deliveryOf(claimed: Claimed) {
  const body = utf8Of(claimed.body);
  const event = {
    id: claimed.eventId,
    webhook_id: claimed.webhookId,
    webhook_name: claimed.webhookName,
    received_at: uuidv7Time(claimed.eventId),
    event_type: claimed.eventType,
    content_type: claimed.contentType,
    headers: readStoredHeaders(utf8Of(claimed.headers) ?? bytesOf(claimed.headers).toString('utf8')),
    ...(body === null ? { body_base64: bytesOf(claimed.body).toString('base64') } : { body }),
  };
  return {
    id: claimed.id,
    receipt: receiptText(receiptOf(claimed)),
    attempt: claimed.attempt,
    leased_until: claimed.leasedUntil,
    /** Only where events are traced. */
    traceparent: undefined as string | undefined,
    event,
  };
}
