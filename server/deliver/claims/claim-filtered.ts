/**
 * Claims of an agent whose subscriptions have filters: judges deliveries in slices before it leases those that pass.
 *
 * A slice is read without locks, judged in a thread, and what the filters exclude is ended in one statement. Then the claim statement
 * runs, restricted to what passed or needs no verdict. So no lock and no connection is held while a filter runs, and a process that
 * dies in between loses nothing: what it judged is judged again. Two claims that judge the same deliveries cannot lease one twice,
 * since the claim statement locks them and checks their state.
 */

import { type CandidateEvent, verdicts } from '../../model/filters/evaluate.ts';
import type { Database } from '../../store/connect/pool.ts';
import { claimDeliveries, oldestSinceMs } from '../../store/queries/claims/claim.ts';
import {
  type Candidate,
  type FilteredWebhook,
  markFiltered,
  readCandidates,
} from '../../store/queries/claims/filter.ts';
import type { Claimed, ClaimOrder } from '../../store/queries/claims/order.ts';
import type { FilterJudge } from './judge.ts';

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
export interface FilterFailed {
  webhookId: string;
  filter: string;
  events: number;
  /** Number of them on which the filter took too long or ended its thread. */
  slow: number;
  /** Reason of the last failure. */
  reason: string;
  /** True when the filter does not compile. */
  broken: boolean;
}

/** What a claim reports while it runs. */
export interface ClaimEvents {
  failed(failure: FilterFailed): void;
  /** Called with the number of deliveries that filters excluded. */
  excluded(deliveries: number): void;
  /** See onEnded of claimDeliveries. */
  ended: NonNullable<Parameters<typeof claimDeliveries>[2]>;
}

/** What a claim got. */
export interface ClaimResult {
  claimed: Claimed[];
  /** True when no delivery is left to judge. */
  complete: boolean;
  /** The earliest `oldestSinceMs` of all slices, for the watermark. Null when no delivery was seen. */
  oldestMs: number | null;
  /** Webhook at which the round ended; null: nothing was claimed. */
  lastWebhookId: string | null;
}

/** Judges and leases in slices. No slice is begun after a second. */
export async function claimFiltered(
  { database, judge }: { database: Database; judge: FilterJudge },
  order: ClaimOrder,
  events: ClaimEvents,
): Promise<ClaimResult> {
  const endMs = performance.now() + CLAIM_MS;
  const claimed: Claimed[] = [];
  let size = Math.min(SLICE_MAX, Math.max(SLICE_MIN, order.max));
  let { claimableFrom, afterWebhookId, bytesMax } = order;
  let oldestMs: number | null = null;
  let lastWebhookId: string | null = null;
  for (;;) {
    const rest = { ...order, max: order.max - claimed.length, bytesMax, claimableFrom, afterWebhookId };
    const sifted = await claimSlice({ database, judge }, rest, size, events).catch((error) => {
      if (claimed.length === 0) throw error;
      // The agent gets the deliveries that are leased. If the error lasts, its next claim reports it.
      return null;
    });
    if (sifted === null) return { claimed, complete: true, oldestMs, lastWebhookId };
    const { judged, found } = sifted;
    claimed.push(...found);
    lastWebhookId = lastInRound(found) ?? lastWebhookId;
    for (const { body } of found) bytesMax -= body.length;

    // Without room for a lease, the claim has not looked at deliveries that need no verdict.
    const hasLooked = found.length > 0 || !order.isLimited;
    const oldest = minimum(sifted.oldestMs, oldestSinceMs(found));
    if (hasLooked && oldest !== null) {
      oldestMs = oldest;
      claimableFrom = new Date(Math.floor(oldest)).toISOString();
    }
    // Wait when nothing was judged, because the thread has too much to do. Also wait when none of the passed deliveries was leased: the
    // agent is at its limit, or another claim took them.
    const isStuck = judged.count === 0 || (found.length === 0 && judged.passedIds.length > 0);
    const complete = judged.complete || isStuck;
    const isOver = claimed.length >= order.max || bytesMax <= 0 || performance.now() >= endMs;
    if (complete || isOver) return { claimed, complete, oldestMs, lastWebhookId };
    afterWebhookId = judged.lastWebhookId;
    size = Math.min(SLICE_MAX, size * SLICE_GROWTH);
  }
}

/** Judges at most `size` deliveries, and leases up to `order.max` of those that pass or need no verdict. */
async function claimSlice(
  { database, judge }: { database: Database; judge: FilterJudge },
  order: ClaimOrder,
  size: number,
  events: ClaimEvents,
): Promise<{ judged: JudgedSlice; found: Claimed[]; oldestMs: number | null }> {
  const { webhooks, oldestMs } = await readCandidates(database, { ...order, max: size, bytesMax: SLICE_BYTES_MAX });
  const judged = await judgeSlice(judge, webhooks, events);
  if (judged.excluded.length > 0) events.excluded(await markFiltered(database, order.agentId, judged.excluded));
  return { judged, found: await claimDeliveries(database, order, events.ended, judged), oldestMs };
}

/** Webhook at which the round over webhooks ended; null: nothing was claimed. */
export function lastInRound(claimed: readonly Claimed[]): string | null {
  return claimed.reduce<Claimed | null>((a, b) => (a !== null && a.place > b.place ? a : b), null)?.webhookId ?? null;
}

interface JudgedSlice {
  passedIds: string[];
  horizons: { webhookId: string; upTo: string }[];
  excluded: string[];
  /** Deliveries with a verdict. */
  count: number;
  complete: boolean;
  lastWebhookId: string | null;
}

async function judgeSlice(
  judge: FilterJudge,
  webhooks: readonly FilteredWebhook[],
  { failed }: ClaimEvents,
): Promise<JudgedSlice> {
  const rows = webhooks
    .flatMap((webhook, filter) => webhook.candidates.map((candidate) => ({ webhook, candidate, filter })))
    .sort((a, b) => a.candidate.place - b.candidate.place);
  const stored = rows.filter(({ candidate, webhook }) => candidate.headers !== null && !webhook.suspended);
  const { verdicts: given, failures } =
    stored.length === 0
      ? { verdicts: [], failures: [] }
      : await judge.judge(
          webhooks.map(({ filter }) => filter),
          stored.map(({ webhook, candidate, filter }) => eventOf(webhook, candidate, filter)),
        );
  const verdictOf = new Map(stored.map(({ candidate }, index) => [candidate.id, given[index]!]));
  const decided = ({ candidate, webhook }: (typeof rows)[number]) => {
    // Retention has removed the event, so the claim leaves the delivery out.
    if (candidate.headers === null) return verdicts.passed;
    return webhook.suspended ? verdicts.failed : verdictOf.get(candidate.id)!;
  };
  const judged: JudgedSlice = {
    passedIds: [],
    horizons: [],
    excluded: [],
    count: 0,
    complete: true,
    lastWebhookId: null,
  };
  const failedEvents = new Map<number, number>();
  const horizons = new Map<string, string>();
  const undecided = new Set<string>();
  for (const row of rows) {
    const verdict = decided(row);
    const { candidate, webhook, filter } = row;
    if (verdict === verdicts.undecided) undecided.add(webhook.id);
    if (undecided.has(webhook.id)) continue;
    judged.count++;
    judged.lastWebhookId = webhook.id;
    horizons.set(webhook.id, candidate.availableAt);
    if (verdict === verdicts.excluded) judged.excluded.push(candidate.id);
    else judged.passedIds.push(candidate.id);
    if (verdict === verdicts.failed) failedEvents.set(filter, (failedEvents.get(filter) ?? 0) + 1);
  }
  const notAsked = webhooks.flatMap(({ suspended }, filter) =>
    suspended && failedEvents.has(filter) ? [{ filter, slow: 0, reason: SUSPENDED, broken: false }] : [],
  );
  for (const { filter, ...failure } of [...failures, ...notAsked]) {
    const { id, filter: text } = webhooks[filter]!;
    failed({ webhookId: id, filter: text, events: failedEvents.get(filter) ?? 1, ...failure });
  }
  for (const { id, complete, oldestAt } of webhooks) {
    const isDone = complete && !undecided.has(id);
    if (!isDone) judged.complete = false;
    // Also for a webhook without a verdict: deliveries that were leased before, and are claimable since before its oldest unjudged one, need none.
    judged.horizons.push({ webhookId: id, upTo: isDone ? 'infinity' : (horizons.get(id) ?? oldestAt!) });
  }
  return judged;
}

function eventOf({ name }: FilteredWebhook, candidate: Candidate, filter: number): CandidateEvent {
  const { headers, contentType, eventType, bytes, body } = candidate;
  return { filter, webhook: name, headers: headers!, contentType, eventType, bytes, body };
}

function minimum(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}
