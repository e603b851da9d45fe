/**
 * Claims of an agent whose subscriptions have filters, in slices. For each slice: read the next deliveries without locks, judge them in a
 * thread, end those that the filters exclude, and lease those that passed or need no verdict.
 *
 * No lock and no connection is held while a filter runs, and a process that dies in between loses nothing: its deliveries are judged
 * again. Two claims that judge the same deliveries cannot lease one twice, since the lease locks them and checks their state.
 */
import type { Metrics } from '../../base/telemetry/metrics.ts';
import { type FilterVerdict, verdicts } from '../../model/filters/evaluate.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { FilterFailures } from '../../store/queries/agents/filters.ts';
import { type Candidate, endFiltered, readCandidates } from '../../store/queries/claims/candidates.ts';
import type { ClaimResult } from '../../store/queries/claims/claim.ts';
import { EACH_MIN } from '../../store/queries/claims/next.ts';
import type { Claimed, ClaimOrder } from '../../store/queries/claims/order.ts';
import type { FilterJudge } from './judge.ts';
import { lastInRound } from './marks.ts';

/** Size of the first slice for a claim of one delivery. The next slices are SLICE_GROWTH times as large, up to SLICE_MAX. */
const SLICE_MIN = 16;
const SLICE_MAX = 500;
const SLICE_GROWTH = 4;
/** Body bytes of a slice that filters read. Bounds the memory of a claim in this process and in the thread. */
const SLICE_BYTES_MAX = 2_097_152;
/** No slice is begun after this time. An agent that gets nothing claims again. */
const CLAIM_MS = 1_000;

const SUSPENDED = 'it is suspended: it took too long on other events';

/** A filter gave no verdict on some events of a webhook: they are delivered. */
export interface FilterFailed extends Omit<FilterFailures, 'agentId'> {
  /** True when the filter does not compile. */
  broken: boolean;
}

export interface FilterParts {
  database: Database;
  judge: FilterJudge;
  metrics: Pick<Metrics, 'settled'>;
  onFilterFailed: (agentId: string, failure: FilterFailed) => void;
}

interface Filtered {
  claimed: Claimed[];
  /** True when nothing is left to judge. */
  complete: boolean;
  /** Since when the oldest delivery of the agent could be claimed, Unix milliseconds; null: none could. */
  oldestMs: number | null;
  /** Webhook at which the round over webhooks ended; null: nothing was claimed. */
  lastWebhookId: string | null;
}

/**
 * Claims deliveries slice by slice until there is enough, nothing is left to judge, or CLAIM_MS have passed. Rejects with the error of the
 * database only if nothing was leased before it.
 * @param lease leases the deliveries with these ids
 */
export async function claimFiltered(
  parts: FilterParts,
  order: ClaimOrder,
  lease: (order: ClaimOrder, options: { ids: readonly string[] }) => Promise<ClaimResult>,
): Promise<Filtered> {
  const endMs = performance.now() + CLAIM_MS;
  const result: Filtered = { claimed: [], complete: true, oldestMs: null, lastWebhookId: null };
  let { max, bytesMax, claimableFrom, afterWebhookId } = order;
  for (let size = clampSize(max); ; size = clampSize(size * SLICE_GROWTH)) {
    const rest = { ...order, max, bytesMax, claimableFrom, afterWebhookId };
    try {
      const candidates = await readCandidates(parts.database, rest, size, SLICE_BYTES_MAX);
      if (candidates.length === 0) return result;
      result.oldestMs = candidates[0]!.sinceMs;
      const { passedIds, excludedIds, lastWebhookId, isWhole } = await judgeSlice(parts, order.agentId, candidates);
      if (excludedIds.length > 0)
        parts.metrics.settled(order.agentId, 'filtered', await endFiltered(parts.database, order.agentId, excludedIds));
      const claimed = passedIds.length === 0 ? [] : (await lease(rest, { ids: passedIds })).claimed;
      result.claimed.push(...claimed);
      result.lastWebhookId = lastInRound(claimed) ?? result.lastWebhookId;
      // Wait when nothing was judged, because the thread has too much to do. Also wait when none of the passed deliveries was leased: the
      // agent is at its limit, or another claim took them.
      const isStuck = claimed.length === 0 && (passedIds.length > 0 || excludedIds.length === 0);
      // Excluded deliveries may have held others with their key.
      const mayHaveHeld = order.isOrdered && excludedIds.length > 0;
      const isLast = isWhole && candidates.length < Math.min(size, EACH_MIN) && !mayHaveHeld;
      if (isStuck || isLast) return result;
      max -= claimed.length;
      bytesMax -= bodyBytesOf(claimed);
      if (max <= 0 || bytesMax <= 0 || performance.now() >= endMs) return { ...result, complete: false };
      claimableFrom = new Date(Math.floor(result.oldestMs)).toISOString();
      afterWebhookId = lastWebhookId;
    } catch (error) {
      if (result.claimed.length === 0) throw error;
      // The agent gets the deliveries that are leased. If the error lasts, its next claim reports it.
      return result;
    }
  }
}

function clampSize(size: number): number {
  return Math.min(SLICE_MAX, Math.max(SLICE_MIN, size));
}

/** Total size of the bodies, in bytes. */
export function bodyBytesOf(claimed: readonly Claimed[]): number {
  return claimed.reduce((bytes, { body }) => bytes + body.length, 0);
}

interface JudgedSlice {
  /** In the order of the claim. */
  passedIds: string[];
  excludedIds: string[];
  /** Webhook of the last delivery with a verdict. */
  lastWebhookId: string | null;
  isWhole: boolean;
}

/** Judges a slice. A delivery without a verdict holds up the later ones of its webhook. */
async function judgeSlice(
  { judge, onFilterFailed }: FilterParts,
  agentId: string,
  candidates: readonly Candidate[],
): Promise<JudgedSlice> {
  const judged = candidates.filter(({ filter }) => filter !== null);
  const webhooks = [...new Map(judged.map((candidate) => [candidate.webhookId, candidate])).values()];
  const filterOf = new Map(webhooks.map(({ webhookId }, index) => [webhookId, index]));
  const asked = candidates.filter(({ headers, suspended }) => headers !== null && !suspended);
  const { verdicts: given, failures } =
    asked.length === 0
      ? { verdicts: [], failures: [] }
      : await judge.judge(
          webhooks.map(({ filter }) => filter!),
          asked.map(({ webhookId, webhookName, headers, ...event }) => ({
            ...event,
            filter: filterOf.get(webhookId)!,
            webhook: webhookName,
            headers: headers!,
          })),
        );
  const verdictOf = new Map(asked.map((candidate, index) => [candidate, given[index]!]));
  const slice: JudgedSlice = { passedIds: [], excludedIds: [], lastWebhookId: null, isWhole: true };
  const heldUp = new Set<string>();
  const failed = new Map<string, number>();
  for (const candidate of candidates) {
    const { id, webhookId } = candidate;
    const verdict = verdictOf.get(candidate) ?? verdictUnasked(candidate);
    if (verdict === verdicts.undecided) heldUp.add(webhookId);
    if (heldUp.has(webhookId)) continue;
    slice.lastWebhookId = webhookId;
    (verdict === verdicts.excluded ? slice.excludedIds : slice.passedIds).push(id);
    if (verdict === verdicts.failed) failed.set(webhookId, (failed.get(webhookId) ?? 0) + 1);
  }
  slice.isWhole = heldUp.size === 0;
  const ofSuspended = webhooks.flatMap(({ webhookId, suspended }, filter) =>
    suspended && failed.has(webhookId) ? [{ filter, slow: 0, reason: SUSPENDED, broken: false }] : [],
  );
  for (const { filter, ...failure } of [...failures, ...ofSuspended]) {
    const { webhookId, filter: text } = webhooks[filter]!;
    onFilterFailed(agentId, { webhookId, filter: text!, events: failed.get(webhookId) ?? 1, ...failure });
  }
  return slice;
}

/** The verdict on a delivery that was not judged. Without an event (retention has removed it) it passes: the lease leaves it out. */
function verdictUnasked({ isRead, filter, headers, suspended }: Candidate): FilterVerdict {
  if (!isRead) return verdicts.undecided;
  return filter === null || headers === null || !suspended ? verdicts.passed : verdicts.failed;
}
