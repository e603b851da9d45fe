/** Leases deliveries, and waits if there are none. */
import { isUtf8 } from 'node:buffer';
import type { Directory } from '../db/directory.ts';
import type { Database } from '../db/pool.ts';
import type { Agent } from '../db/queries/agents.ts';
import { type Claimed, claimDeliveries } from '../db/queries/claim-deliveries.ts';
import { receiptText, settleDeliveries } from '../db/queries/settle-deliveries.ts';
import type { FilterJudge } from '../filters/judge.ts';
import type { Exchange } from '../http/exchange.ts';
import { readStoredHeaders } from '../signatures/stored-headers.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { type FilterFailed, siftAndClaim } from './sift.ts';
import type { ClaimWaiters } from './waiters.ts';
import type { ClaimTurns, ClaimWatermarks } from './watermarks.ts';

interface ClaimOrder {
  /** Deliveries. */
  max: number;
  leaseSeconds: number;
  /** How long to wait for a delivery if there is none. */
  waitSeconds: number;
  /** Only deliveries of these webhooks; null: all. */
  webhookIds: readonly string[] | null;
}

/** `json`: the response. `gone`: the agent disconnected, and its deliveries are released. */
type ClaimOutcome = { kind: 'claimed'; json: string } | { kind: 'gone' };

/** Total body bytes in one answer. Bounds the memory of a claim in this process and in the agent. */
const CLAIM_BYTES_MAX = 16_777_216;

interface ClaimParts {
  database: Database;
  agents: Directory<Agent>;
  waiters: ClaimWaiters;
  watermarks: ClaimWatermarks;
  turns: ClaimTurns;
  metrics: Pick<Metrics, 'settled' | 'leasesExpired'>;
  judge: FilterJudge;
  /** Filters of the agent's subscriptions failed. */
  onFilterFailed: (agentId: string, failure: FilterFailed) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

export function createClaim(parts: ClaimParts) {
  const { database, agents, waiters, watermarks, turns, metrics, attemptsMax, judge, onFilterFailed } = parts;
  const oneAtATime = queues();
  return async function claim(exchange: Exchange, agent: Agent, given: ClaimOrder): Promise<ClaimOutcome> {
    const untilMs = performance.now() + given.waitSeconds * 1000;
    const order = {
      agentId: agent.id,
      generation: agent.generation,
      address: exchange.client.address,
      max: given.max,
      leaseSeconds: given.leaseSeconds,
      webhookIds: given.webhookIds,
      bytesMax: CLAIM_BYTES_MAX,
      attemptsMax,
    };
    let commitsBefore = 0;
    const onEnded = ({ expired, dead }: { expired: number; dead: number }) => {
      metrics.leasesExpired(agent.id, expired);
      metrics.settled(agent.id, 'dead', dead);
    };
    const siftEvents = {
      failed: (failure: FilterFailed) => onFilterFailed(agent.id, failure),
      excluded: (deliveries: number) => metrics.settled(agent.id, 'filtered', deliveries),
    };
    /** Filters have not judged all that can be claimed. */
    let more = false;
    const look = async ({ maxLeased, filtered }: Agent) => {
      commitsBefore = waiters.commits;
      const claimableFrom = watermarks.forClaim(agent.id, performance.now());
      const afterWebhookId = turns.last(agent.id);
      const looked = { ...order, isLimited: maxLeased !== null, claimableFrom, afterWebhookId };
      more = false;
      if (filtered) {
        const sifted = await siftAndClaim({ database, judge }, looked, siftEvents, onEnded);
        const { claimed, lastWebhookId, oldestSinceMs } = sifted;
        if (lastWebhookId !== null) turns.record(agent.id, lastWebhookId);
        if (order.webhookIds === null && oldestSinceMs !== null)
          watermarks.learn(agent.id, oldestSinceMs, performance.now());
        more = !sifted.complete;
        return claimed;
      }
      const found = await claimDeliveries(database, looked, onEnded);
      if (found.length === 0) return found;
      turns.record(agent.id, found.reduce((a, b) => (a.place > b.place ? a : b)).webhookId);
      // A claim limited to some webhooks teaches nothing: the other webhooks may have older deliveries.
      if (order.webhookIds === null) watermarks.learn(agent.id, found[0]!.oldestSinceMs, performance.now());
      return found;
    };
    const lookInTurn = (current: Agent) =>
      current.maxLeased !== null || current.filtered ? oneAtATime(agent.id, () => look(current)) : look(current);
    let claimed = await lookInTurn(agent);
    while (claimed.length === 0 && !exchange.aborted && !exchange.draining) {
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) break;
      if (!more) await waiters.wait(agent.id, leftMs, commitsBefore, (wake) => exchange.whenGone(wake));
      exchange.waited();
      if (exchange.aborted) break;
      // The limit and the filters may have been changed during the wait.
      const current = (await agents.find(agent.id, Date.now())) ?? agent;
      claimed = await lookInTurn(current);
    }
    if (exchange.aborted) {
      if (claimed.length > 0) await settleDeliveries(database, agent.id, claimed.map(receiptOf), { kind: 'release' });
      return { kind: 'gone' };
    }
    return { kind: 'claimed', json: `{"deliveries":[${claimed.map(deliveryJson).join(',')}]}` };
  };
}

/**
 * Runs the claims of each agent one after another. Claims of an agent with `max_leased` wait for its lock: all at once, they would take
 * every connection of the pool. Claims of an agent with filters would all judge the same deliveries.
 */
function queues() {
  const last = new Map<string, Promise<unknown>>();
  return async function oneAtATime<T>(agentId: string, work: () => Promise<T>): Promise<T> {
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

function deliveryJson(claimed: Claimed): string {
  const { body } = claimed;
  const event = {
    id: claimed.eventId,
    webhook_id: claimed.webhookId,
    webhook_name: claimed.webhookName,
    received_at: claimed.receivedAt,
    event_type: claimed.eventType,
    content_type: claimed.contentType,
    headers: readStoredHeaders(claimed.headers.toString('utf8')),
    // Text with NUL is legal JSON, but few programs handle it.
    ...(isUtf8(body) && !body.includes(0) ? { body: body.toString('utf8') } : { body_base64: body.toString('base64') }),
  };
  return JSON.stringify({
    id: claimed.id,
    receipt: receiptText(receiptOf(claimed)),
    attempt: claimed.attempt,
    leased_until: claimed.leasedUntil,
    event,
  });
}
