/** Leases deliveries, and waits for one when none can be claimed. */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { CellList } from '../../store/cells/cells-database.ts';
import type { Directory } from '../../store/directory.ts';
import type { Database } from '../../store/pool.ts';
import type { Agent } from '../../store/queries/agents.ts';
import { claimAndAck, claimDeliveries, oldestSinceMs } from '../../store/queries/claim-deliveries.ts';
import type { Claimed, ClaimOrder } from '../../store/queries/claim-order.ts';
import {
  type Acknowledged,
  type Receipt,
  type Settled,
  settleDeliveries,
} from '../../store/queries/settle-deliveries.ts';
import { DatabaseUnavailable } from '../../store/unavailable.ts';
import { type ClaimEvents, type ClaimResult, claimFiltered, type FilterFailed, lastInRound } from './claim-filtered.ts';
import { deliveryOf, receiptOf } from './delivery.ts';
import type { FilterJudge } from './judge.ts';
import { knownReceipts, type ReceiptsAnswer, receiptsAnswer } from './settle.ts';
import type { ClaimWaiters } from './waiters.ts';
import type { ClaimMarks } from './watermarks.ts';

interface ClaimRequest {
  /** Deliveries. */
  max: number;
  leaseSeconds: number;
  /** How long to wait when no delivery can be claimed. */
  waitSeconds: number;
  /** Only deliveries of these webhooks; null: all. */
  webhookIds: readonly string[] | null;
  /** Receipts to acknowledge in the statement of the claim; only if `acknowledges` is true of the agent. */
  ack: readonly string[];
}

/** `deliveries`: JSON array. `settled`: null without `ack`. `gone`: the agent disconnected, and its deliveries are released. */
type ClaimOutcome = { kind: 'claimed'; deliveries: string; settled: ReceiptsAnswer | null } | { kind: 'gone' };

/** Total body bytes in one answer. Bounds the memory of a claim in this process and in the agent. */
const CLAIM_BYTES_MAX = 16_777_216;

interface ClaimParts {
  database: Database;
  agents: Directory<Agent>;
  /** Whose deliveries are claimed in turn. */
  cells: Pick<CellList, 'all' | 'known'>;
  waiters: ClaimWaiters;
  marks: ClaimMarks;
  metrics: Pick<Metrics, 'settled' | 'leasesExpired'>;
  judge: FilterJudge;
  /** The agent gets these deliveries. */
  onClaimed: (agentId: string, claimed: readonly Claimed[]) => void;
  onAcknowledged: (agentId: string, acknowledged: readonly Acknowledged[]) => void;
  /** Filters of the agent's subscriptions failed. */
  onFilterFailed: (agentId: string, failure: FilterFailed) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

export function createClaim(parts: ClaimParts) {
  const { database, agents, cells, waiters, attemptsMax } = parts;
  const oneAtATime = queues();
  async function claim(exchange: Exchange, agent: Agent, request: ClaimRequest): Promise<ClaimOutcome> {
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
      if (isOneStatement(current)) return lookInCells(parts, order, current);
      // Skip the claim of a disconnected client: its leases would only be released, and the claims behind it wait for them.
      return oneAtATime(agent.id, () => (exchange.aborted ? nothing : lookInCells(parts, order, current)));
    };
    const acks = knownReceipts(request.ack);
    const { commits } = waiters;
    let looked = await (acks.length === 0
      ? lookInTurn(agent)
      : look(parts, { ...order, cell: HOME }, agent, acks).then((found) => ({ ...found, commitsBefore: commits })));
    const settled = request.ack.length === 0 ? null : receiptsAnswer(request.ack, looked.settled);
    for (let inVain = false; looked.claimed.length === 0 && !exchange.aborted && !exchange.draining; inVain = true) {
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) break;
      if (looked.complete)
        await waiters.wait(agent.id, { timeoutMs: leftMs, commitsBefore: looked.commitsBefore, inVain }, (wake) =>
          exchange.whenGone(wake),
        );
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
    if (claimed.length > 0) parts.onClaimed(agent.id, claimed);
    return { kind: 'claimed', deliveries: JSON.stringify(claimed.map(deliveryOf)), settled };
  }
  /** Whether the claims of an agent can acknowledge: with several cells a claim takes several statements. */
  const acknowledges = (agent: Agent) => cells.known && cells.all().length === 1 && isOneStatement(agent);
  return { claim, acknowledges };
}

const HOME = 0;

/** Whether a claim of the agent in one cell is one statement. */
function isOneStatement({ maxLeased, filtered }: Agent): boolean {
  return maxLeased === null && !filtered;
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

const nothingSettled: Settled = { done: new Set(), changed: [], acknowledged: [] };
const nothing: Looked = { claimed: [], complete: true, commitsBefore: 0, settled: nothingSettled.done };

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

type ClaimedBy = Omit<
  ClaimOrder,
  'cell' | 'isLimited' | 'claimableFrom' | 'afterWebhookId' | 'onlyWebhookId' | 'isOfMany' | 'days'
>;

/** Leases what can be claimed now in one cell after the other, until there is enough. One that is away is left out unless all are. */
async function lookInCells(parts: ClaimParts, request: ClaimedBy, agent: Agent): Promise<Looked> {
  const cells = parts.cells.all();
  const looked: Looked = { ...nothing, claimed: [], commitsBefore: parts.waiters.commits };
  let { max, bytesMax } = request;
  let away = 0;
  for (const { number } of parts.marks.inTurn(agent.id, cells)) {
    try {
      const { claimed, complete } = await look(parts, { ...request, cell: number, max, bytesMax }, agent);
      if (cells.length === 1) return { ...looked, claimed, complete };
      looked.claimed.push(...claimed);
      looked.complete &&= complete;
      max -= claimed.length;
      for (const { body } of claimed) bytesMax -= body.length;
      if (claimed.length > 0) parts.marks.ended(agent.id, number);
    } catch (error) {
      const isLast = ++away === cells.length;
      if (isLast || (looked.claimed.length === 0 && !(error instanceof DatabaseUnavailable))) throw error;
    }
    if (max <= 0 || bytesMax <= 0) break;
  }
  return looked;
}

/** Leases what can be claimed now in a cell, from the agent's watermark and turn on, and moves both. */
async function look(
  parts: ClaimParts,
  request: ClaimedBy & Pick<ClaimOrder, 'cell'>,
  { id, maxLeased, filtered, onlyWebhookId, isOfMany }: Agent,
  acks: readonly Receipt[] = [],
): Promise<Omit<Looked, 'commitsBefore'>> {
  const { database, judge } = parts;
  const { watermarks, turns, days } = parts.marks.of(request.cell);
  const order = {
    ...request,
    isLimited: maxLeased !== null,
    claimableFrom: watermarks.forClaim(id, performance.now()),
    afterWebhookId: turns.last(id),
    onlyWebhookId,
    isOfMany,
    days: days.forClaim(id, Date.now()),
  };
  const events = eventsOf(parts, id);
  const { claimed, complete, oldestMs, lastWebhookId, settled } = filtered
    ? { ...(await claimFiltered({ database, judge }, order, events)), settled: nothing.settled }
    : await claimUnfiltered(database, order, acks, events);
  if (lastWebhookId !== null) turns.record(id, lastWebhookId);
  // A claim that looks at some webhooks only does not move the watermark: the other webhooks may have older deliveries.
  if (order.webhookIds === null && !isOfMany && oldestMs !== null) watermarks.learn(id, oldestMs, performance.now());
  days.record(
    id,
    claimed.map(({ eventId }) => eventId),
  );
  return { claimed, complete, settled };
}

async function claimUnfiltered(
  database: Database,
  order: ClaimOrder,
  acks: readonly Receipt[],
  { ended, acknowledged }: ClaimEvents & { acknowledged: (deliveries: readonly Acknowledged[]) => void },
): Promise<ClaimResult & Pick<Looked, 'settled'>> {
  const { claimed, settled } =
    acks.length === 0
      ? { claimed: await claimDeliveries(database, order, ended), settled: nothingSettled }
      : await claimAndAck(database, order, acks, ended);
  if (settled.acknowledged.length > 0) acknowledged(settled.acknowledged);
  const result = { claimed, complete: true, oldestMs: oldestSinceMs(claimed), lastWebhookId: lastInRound(claimed) };
  return { ...result, settled: settled.done };
}

function eventsOf({ metrics, onFilterFailed, onAcknowledged }: ClaimParts, agentId: string) {
  return {
    failed: (failure: FilterFailed) => onFilterFailed(agentId, failure),
    acknowledged: (deliveries: readonly Acknowledged[]) => {
      metrics.settled(agentId, 'acknowledged', deliveries.length);
      onAcknowledged(agentId, deliveries);
    },
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
