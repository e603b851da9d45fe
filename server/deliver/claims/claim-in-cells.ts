/** One attempt to claim: leases what can be claimed now, without waiting, in one cell after the other. */
import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { CellList } from '../../store/cells/cells-database.ts';
import type { Database } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import type { Agent } from '../../store/queries/agents/agents.ts';
import { claimAndAck, claimDeliveries, oldestSinceMs } from '../../store/queries/claims/claim.ts';
import type { Claimed, ClaimOrder } from '../../store/queries/claims/order.ts';
import type { Receipt } from '../../store/queries/claims/receipts.ts';
import { type Acknowledged, nothingSettled, type Settled } from '../../store/queries/claims/settle.ts';
import { type ClaimEvents, type ClaimResult, claimFiltered, type FilterFailed, lastInRound } from './claim-filtered.ts';
import type { ClaimMarks } from './claim-marks.ts';
import type { FilterJudge } from './judge.ts';
import type { ClaimWaiters } from './waiters.ts';

export interface CellClaimParts {
  database: Database;
  /** Whose deliveries are claimed in turn. */
  cells: Pick<CellList, 'all'>;
  waiters: Pick<ClaimWaiters, 'commits'>;
  marks: ClaimMarks;
  metrics: Pick<Metrics, 'settled' | 'leasesExpired'>;
  judge: FilterJudge;
  onAcknowledged: (agentId: string, acknowledged: readonly Acknowledged[]) => void;
  /** Filters of the agent's subscriptions failed. */
  onFilterFailed: (agentId: string, failure: FilterFailed) => void;
}

/** What a client asks for. The agent's record and its marks add the rest of a ClaimOrder. */
type ClaimTerms = Omit<
  ClaimOrder,
  'cell' | 'isLimited' | 'claimableFrom' | 'afterWebhookId' | 'onlyWebhookId' | 'hasManyWebhooks' | 'days'
>;

/** What an attempt leased. */
interface Found {
  claimed: Claimed[];
  /**
   * False: filters have not judged all deliveries that can be claimed, or only the acknowledgements succeeded. The claim repeats its query
   * without a wait.
   */
  complete: boolean;
  /** Number of notified commits before the query ran. */
  commitsBefore: number;
  settled: Settled;
}

export const nothing: Found = { claimed: [], complete: true, commitsBefore: 0, settled: nothingSettled };

/** Leases what can be claimed now in one cell after the other, until there is enough. One that is away is left out unless all are. */
export async function claimInCells(parts: CellClaimParts, request: ClaimTerms, agent: Agent): Promise<Found> {
  const cells = parts.cells.all();
  const found: Found = { ...nothing, claimed: [], commitsBefore: parts.waiters.commits };
  let { max, bytesMax } = request;
  let away = 0;
  for (const { number } of parts.marks.inTurn(agent.id, cells)) {
    try {
      const { claimed, complete } = await claimInCell(parts, { ...request, cell: number, max, bytesMax }, agent);
      if (cells.length === 1) return { ...found, claimed, complete };
      found.claimed.push(...claimed);
      found.complete &&= complete;
      max -= claimed.length;
      for (const { body } of claimed) bytesMax -= body.length;
      if (claimed.length > 0) parts.marks.ended(agent.id, number);
    } catch (error) {
      const isLast = ++away === cells.length;
      if (isLast || (found.claimed.length === 0 && !(error instanceof DatabaseUnavailable))) throw error;
    }
    if (max <= 0 || bytesMax <= 0) break;
  }
  return found;
}

/** Leases what can be claimed now in a cell, from the agent's watermark and turn on, and moves both. */
export async function claimInCell(
  parts: CellClaimParts,
  request: ClaimTerms & Pick<ClaimOrder, 'cell'>,
  { id, maxLeased, filtered, onlyWebhookId, hasManyWebhooks }: Agent,
  acks: readonly Receipt[] = [],
): Promise<Omit<Found, 'commitsBefore'>> {
  const { database, judge } = parts;
  const { watermarks, turns, days } = parts.marks.of(request.cell);
  const order = {
    ...request,
    isLimited: maxLeased !== null,
    claimableFrom: watermarks.forClaim(id, performance.now()),
    afterWebhookId: turns.of(id) ?? null,
    onlyWebhookId,
    hasManyWebhooks,
    days: days.forClaim(id, Date.now()),
  };
  const events = eventsOf(parts, id);
  const { claimed, complete, oldestMs, lastWebhookId, settled } = filtered
    ? { ...(await claimFiltered({ database, judge }, order, events)), settled: nothing.settled }
    : await claimUnfiltered(database, order, acks, events);
  if (lastWebhookId !== null) turns.record(id, lastWebhookId);
  // A claim that looks at some webhooks only does not move the watermark: the other webhooks may have older deliveries.
  if (order.webhookIds === null && oldestMs !== null) watermarks.learn(id, oldestMs, performance.now());
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
  { ended, acknowledged }: ReturnType<typeof eventsOf>,
): Promise<ClaimResult & Pick<Found, 'settled'>> {
  const { claimed, complete, settled } =
    acks.length === 0
      ? { claimed: await claimDeliveries(database, order, ended), complete: true, settled: nothingSettled }
      : await claimAndAck(database, order, acks, ended);
  if (settled.acknowledged.length > 0) acknowledged(settled.acknowledged);
  const result = { claimed, complete, oldestMs: oldestSinceMs(claimed), lastWebhookId: lastInRound(claimed) };
  return { ...result, settled };
}

function eventsOf(
  { metrics, onFilterFailed, onAcknowledged }: CellClaimParts,
  agentId: string,
): ClaimEvents & {
  acknowledged(deliveries: readonly Acknowledged[]): void;
} {
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
