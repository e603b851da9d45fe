/** Leases deliveries, and waits for one when none can be claimed. */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Metrics } from '../../base/telemetry/metrics.ts';
import { readStoredHeaders } from '../../model/signatures/stored-headers.ts';
import { bytesOf, utf8Of } from '../../store/byte-text.ts';
import type { Directory } from '../../store/directory.ts';
import { uuidv7Time } from '../../store/ids.ts';
import type { Database } from '../../store/pool.ts';
import type { Agent } from '../../store/queries/agents.ts';
import { claimAndAck, claimDeliveries, oldestSinceMs } from '../../store/queries/claim-deliveries.ts';
import type { Claimed, ClaimOrder } from '../../store/queries/claim-order.ts';
import { type Receipt, receiptText, settleDeliveries } from '../../store/queries/settle-deliveries.ts';
import { DatabaseUnavailable } from '../../store/unavailable.ts';
import { type ClaimEvents, type ClaimResult, claimFiltered, type FilterFailed, lastInRound } from './claim-filtered.ts';
import type { FilterJudge } from './judge.ts';
import { knownReceipts, type ReceiptsAnswer, receiptsAnswer } from './settle.ts';
import type { ClaimWaiters } from './waiters.ts';
import type { ClaimDays, ClaimTurns, ClaimWatermarks } from './watermarks.ts';

interface ClaimRequest {
  /** Deliveries. */
  max: number;
  leaseSeconds: number;
  /** How long to wait when no delivery can be claimed. */
  waitSeconds: number;
  /** Only deliveries of these webhooks; null: all. */
  webhookIds: readonly string[] | null;
  /** Receipts to acknowledge with the claim; only if `acknowledges` allows it for the agent. */
  ack: readonly string[];
}

/** `deliveries`: JSON array. `settled`: null without `ack`. `gone`: the agent disconnected, and its deliveries are released. */
type ClaimOutcome = { kind: 'claimed'; deliveries: string; settled: ReceiptsAnswer | null } | { kind: 'gone' };

/** Whether a claim of the agent is one statement, which can acknowledge too. */
export function acknowledges({ maxLeased, filtered }: Agent): boolean {
  return maxLeased === null && !filtered;
}

/** Total body bytes in one answer. Bounds the memory of a claim in this process and in the agent. */
const CLAIM_BYTES_MAX = 16_777_216;

interface ClaimParts {
  database: Database;
  agents: Directory<Agent>;
  waiters: ClaimWaiters;
  watermarks: ClaimWatermarks;
  turns: ClaimTurns;
  days: ClaimDays;
  metrics: Pick<Metrics, 'settled' | 'leasesExpired'>;
  judge: FilterJudge;
  /** Filters of the agent's subscriptions failed. */
  onFilterFailed: (agentId: string, failure: FilterFailed) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

export function createClaim(parts: ClaimParts) {
  const { database, agents, waiters, attemptsMax } = parts;
  const oneAtATime = queues();
  return async function claim(exchange: Exchange, agent: Agent, request: ClaimRequest): Promise<ClaimOutcome> {
    const untilMs = performance.now() + request.waitSeconds * 1000;
    const order = {
      agentId: agent.id,
      generation: agent.generation,
      address: exchange.client.address,
      max: request.max,
      leaseSeconds: request.leaseSeconds,
      webhookIds: request.webhookIds,
      bytesMax: CLAIM_BYTES_MAX,
      attemptsMax,
    };
    const lookInTurn = (current: Agent) => {
      if (acknowledges(current)) return look(parts, order, current, []);
      // Skip the claim of a disconnected client: its leases would only be released, and the claims behind it wait for them.
      return oneAtATime(agent.id, () => (exchange.aborted ? nothing : look(parts, order, current, [])));
    };
    const acks = knownReceipts(request.ack);
    let looked = await (acks.length === 0 ? lookInTurn(agent) : look(parts, order, agent, acks));
    const settled = request.ack.length === 0 ? null : receiptsAnswer(request.ack, looked.settled);
    while (looked.claimed.length === 0 && !exchange.aborted && !exchange.draining) {
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) break;
      if (looked.complete)
        await waiters.wait(agent.id, leftMs, looked.commitsBefore, (wake) => exchange.whenGone(wake));
      exchange.waited();
      if (exchange.aborted) break;
      // The limit and the filters may have been changed during the wait.
      const looking = lookInTurn((await agents.find(agent.id, Date.now())) ?? agent);
      const again = await (settled === null ? looking : looking.catch(inOutage(null)));
      if (again === null) break;
      looked = again;
    }
    const { claimed } = looked;
    if (exchange.aborted) {
      if (claimed.length > 0) await settleDeliveries(database, agent.id, claimed.map(receiptOf), { kind: 'release' });
      return { kind: 'gone' };
    }
    return { kind: 'claimed', deliveries: JSON.stringify(claimed.map(deliveryOf)), settled };
  };
}

interface Looked {
  claimed: Claimed[];
  /** False: filters have not judged all deliveries that can be claimed. The claim repeats its query without a wait. */
  complete: boolean;
  /** Number of notified commits before the query ran. */
  commitsBefore: number;
  /** Receipts that are settled, as text. */
  settled: ReadonlySet<string>;
}

const nothing: Looked = { claimed: [], complete: true, commitsBefore: 0, settled: new Set() };

/**
 * Returns `instead` during an outage. For a claim that has settled receipts: it is answered with no deliveries, because the agent must get
 * their outcome. If the outage lasts, the next claim reports it.
 */
export function inOutage<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof DatabaseUnavailable) return instead;
    throw error;
  };
}

/** Leases what can be claimed now, from the agent's watermark and turn on, and moves both. */
async function look(
  parts: ClaimParts,
  request: Omit<ClaimOrder, 'isLimited' | 'claimableFrom' | 'afterWebhookId' | 'onlyWebhookId' | 'days'>,
  { id, maxLeased, filtered, onlyWebhookId }: Agent,
  acks: readonly Receipt[],
): Promise<Looked> {
  const { database, judge, waiters, watermarks, turns, days } = parts;
  const commitsBefore = waiters.commits;
  const order = {
    ...request,
    isLimited: maxLeased !== null,
    claimableFrom: watermarks.forClaim(id, performance.now()),
    afterWebhookId: turns.last(id),
    onlyWebhookId,
    days: days.forClaim(id, Date.now()),
  };
  const events = eventsOf(parts, id);
  const { claimed, complete, oldestMs, lastWebhookId, settled } = filtered
    ? { ...(await claimFiltered({ database, judge }, order, events)), settled: nothing.settled }
    : await claimUnfiltered(database, order, acks, events);
  if (lastWebhookId !== null) turns.record(id, lastWebhookId);
  // A claim limited to some webhooks does not move the watermark: the other webhooks may have older deliveries.
  if (order.webhookIds === null && oldestMs !== null) watermarks.learn(id, oldestMs, performance.now());
  days.record(
    id,
    claimed.map(({ eventId }) => uuidv7Time(eventId)),
  );
  return { claimed, complete, commitsBefore, settled };
}

async function claimUnfiltered(
  database: Database,
  order: ClaimOrder,
  acks: readonly Receipt[],
  { ended, acknowledged }: ClaimEvents & { acknowledged: (deliveries: number) => void },
): Promise<ClaimResult & Pick<Looked, 'settled'>> {
  const { claimed, settled } =
    acks.length === 0
      ? { claimed: await claimDeliveries(database, order, ended), settled: { done: nothing.settled, changed: [] } }
      : await claimAndAck(database, order, acks, ended);
  acknowledged(settled.changed.length);
  const result = { claimed, complete: true, oldestMs: oldestSinceMs(claimed), lastWebhookId: lastInRound(claimed) };
  return { ...result, settled: settled.done };
}

function eventsOf({ metrics, onFilterFailed }: ClaimParts, agentId: string) {
  return {
    failed: (failure: FilterFailed) => onFilterFailed(agentId, failure),
    acknowledged: (deliveries: number) => metrics.settled(agentId, 'acknowledged', deliveries),
    excluded: (deliveries: number) => metrics.settled(agentId, 'filtered', deliveries),
    ended: ({ expired, dead }: { expired: number; dead: number }) => {
      metrics.leasesExpired(agentId, expired);
      metrics.settled(agentId, 'dead', dead);
    },
  };
}

/**
 * Runs the claims of each agent one after another. Claims of an agent with `max_leased` wait for its lock: claims that run at once would take
 * every connection of the pool. Claims of an agent with filters would all judge the same deliveries.
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

/** A delivery as the agent gets it. */
function deliveryOf(claimed: Claimed): object {
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
    event,
  };
}
