/**
 * One round of a claim: leases what can be claimed now, without waiting. In one cell after the other, until there is enough:
 *
 *     continue where the last claim ended (marks.ts)
 *       -> agents with filters: judge the next deliveries, and end those that are excluded (filtered.ts)
 *       -> lease, in a transaction with the count of leases if the agent has `max_leased` (store/queries/claims)
 */
import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { CellList } from '../../store/cells/cells-database.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import type { ActiveAgent } from '../../store/queries/agents/active-agents.ts';
import { type ClaimResult, claimDeliveries } from '../../store/queries/claims/claim.ts';
import { setHeldAside } from '../../store/queries/claims/held.ts';
import type { Claimed, ClaimOrder } from '../../store/queries/claims/order.ts';
import type { Receipt } from '../../store/queries/claims/receipts.ts';
import { nothingSettled, type Settled } from '../../store/queries/claims/settle.ts';
import { bodyBytesOf, claimFiltered, type FilterParts } from './filtered.ts';
import { type ClaimMarks, lastInRound } from './marks.ts';

export interface RoundParts extends FilterParts {
  /** Whose deliveries are claimed in turn. */
  cells: Pick<CellList, 'all'>;
  marks: ClaimMarks;
  metrics: Pick<Metrics, 'settled' | 'leasesExpired'>;
}

/** What a client asks for. The agent's record and its marks add the rest of a ClaimOrder. */
export type RoundOrder = Pick<
  ClaimOrder,
  'generation' | 'max' | 'leaseSeconds' | 'address' | 'webhookIds' | 'bytesMax' | 'attemptsMax'
>;

export interface Round {
  claimed: Claimed[];
  settled: Settled;
  /** False: filters have not judged all that can be claimed, or only the acknowledgements succeeded. Another round follows without a wait. */
  complete: boolean;
}

export const nothingClaimed: Round = { claimed: [], settled: nothingSettled, complete: true };

/**
 * Leases what can be claimed now. A cell that is away is left out. Rejects when all are away; also with any other error, if nothing was
 * leased before it.
 * @param acks receipts to acknowledge in the statement that leases, see claimDeliveries; only with one cell
 */
export async function claimRound(
  parts: RoundParts,
  agent: ActiveAgent,
  order: RoundOrder,
  acks: readonly Receipt[],
): Promise<Round> {
  const cells = parts.cells.all();
  const round = { ...nothingClaimed, claimed: [] as Claimed[] };
  let { max, bytesMax } = order;
  let away = 0;
  for (const cell of parts.marks.inTurn(agent.id, cells)) {
    try {
      const { claimed, settled, complete } = await claimInCell(parts, agent, { ...order, max, bytesMax }, cell, acks);
      if (cells.length === 1) return { claimed, settled, complete };
      round.claimed.push(...claimed);
      round.complete &&= complete;
      max -= claimed.length;
      bytesMax -= bodyBytesOf(claimed);
    } catch (error) {
      const isLast = ++away === cells.length;
      if (isLast || (round.claimed.length === 0 && !(error instanceof DatabaseUnavailable))) throw error;
    }
    if (max <= 0 || bytesMax <= 0) break;
  }
  return round;
}

/** Leases what can be claimed now in a cell, from the agent's marks on, and moves them. */
async function claimInCell(
  parts: RoundParts,
  { id: agentId, maxLeased, filtered, ordered, onlyWebhookId, hasManyWebhooks }: ActiveAgent,
  wanted: RoundOrder,
  { number: cell }: { number: number },
  acks: readonly Receipt[],
): Promise<Round> {
  const order = {
    ...wanted,
    cell,
    agentId,
    isLimited: maxLeased !== null,
    isOrdered: ordered,
    onlyWebhookId,
    hasManyWebhooks,
    ...parts.marks.start(agentId, cell),
  };
  if (ordered && parts.marks.setsAside(agentId, cell)) await setHeldAside(parts.database, order);
  const lease = async (some: ClaimOrder, options: Parameters<typeof claimDeliveries>[2]): Promise<ClaimResult> => {
    const result = await claimDeliveries(parts.database, some, options);
    parts.metrics.leasesExpired(agentId, result.expired);
    parts.metrics.settled(agentId, 'dead', result.dead);
    return result;
  };
  const { claimed, complete, settled, oldestMs, lastWebhookId } = filtered
    ? { ...(await claimFiltered(parts, order, lease)), settled: nothingSettled }
    : inOneStatement(await lease(order, { acks }));
  // A claim that looks at some webhooks only does not move the watermark: the other webhooks may have older deliveries.
  parts.marks.end(agentId, cell, { claimed, lastWebhookId, oldestMs: order.webhookIds === null ? oldestMs : null });
  return { claimed, complete, settled };
}

function inOneStatement({ claimed, complete, settled }: ClaimResult) {
  const oldestMs = claimed.length === 0 ? null : Math.min(...claimed.map(({ sinceMs }) => sinceMs));
  return { claimed, complete, settled, oldestMs, lastWebhookId: lastInRound(claimed) };
}
