/**
 * How many deliveries a replay creates for each agent. Exact for up to 100,000 events before filters; filters are judged for up to
 * 10,000 events, newest first, within two seconds. Beyond that the numbers are estimated: the share of the newest events that passed,
 * and the planner's statistics for the events that were not counted.
 */
import { z } from 'zod';
import { problemLater, type Result } from '../../../base/http/problem.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import { eventFilterOf } from '../../../model/event-filter.ts';
import { idOf, nameOf } from '../../../model/fields.ts';
import { verdicts } from '../../../model/filters/evaluate.ts';
import type { Database } from '../../../store/connect/pool.ts';
import type { EventFilter, EventSpan } from '../../../store/queries/events/conditions.ts';
import { type EventToJudge, estimateEvents, readEventsToJudge } from '../../../store/queries/replays/preview.ts';
import { type Recipient, readRecipients } from '../../../store/queries/replays/recipients.ts';
import { activeAgents } from './replay.ts';
import type { EventSearch, EventTally } from './search.ts';

const COUNTED_EVENTS_MAX = 100_000;
const JUDGED_EVENTS_MAX = 10_000;
const JUDGE_MS_MAX = 2_000;
const SLICE_EVENTS = 500;
const SLICE_BYTES_MAX = 4_194_304;

export const previewSchema = z.object({
  events: z.int().describe('matching events'),
  exact: z.boolean().describe('false: the number of events is estimated'),
  agents: z
    .array(
      z.object({
        agent_id: idOf('agent'),
        name: nameOf('agent'),
        deliveries: z.int().describe('deliveries that its subscriptions and their filters let through'),
        beyond: z.int().describe('further deliveries with beyond_subscriptions'),
        exact: z.boolean().describe('false: the numbers are estimated'),
      }),
    )
    .describe('agents that the replay can reach, by name'),
});

interface Parts {
  database: Database;
  judge: FilterJudge;
  search: EventSearch;
  /** True once the client has left. */
  isGone: () => boolean;
}

interface Order {
  filter: EventFilter;
  span: Pick<EventSpan, 'from' | 'to'>;
  /** Null: all that are subscribed. */
  agentIds: readonly string[] | null;
}

/** Counts what the replay of the events that match would deliver to each agent, without a change. */
export async function previewReplay(
  parts: Parts,
  { filter, span, agentIds }: Order,
): Promise<Result<z.input<typeof previewSchema>>> {
  const { database, search, isGone } = parts;
  const given = await activeAgents(database, agentIds);
  if (given.kind === 'problem') return given;
  const agents = given.value;
  const all = { ...span, before: null, downTo: null };
  const tally = await search.tally({ filter, span: all, limit: COUNTED_EVENTS_MAX, isGone });
  if (tally === null) return problemLater('search_busy', 1);
  const scale = await scaleOf(database, filter, span, tally);
  const recipients = await readRecipients(database.query, [...tally.counts.keys()], agentIds);
  const shares = await judgeNewest(parts, filter, { ...all, from: tally.countedFrom ?? span.from }, recipients);
  const isCounted = tally.countedFrom === null;
  const total = sum(tally.counts.values());
  const named = agents ?? [
    ...new Map(recipients.map((one) => [one.agentId, { id: one.agentId, name: one.agentName }])).values(),
  ];
  const value = {
    events: Math.round(total * scale),
    exact: isCounted,
    agents: named.map(({ id, name }) => {
      const own = recipients.filter(({ agentId }) => agentId === id);
      const countOf = (webhookId: string) => tally.counts.get(webhookId)!;
      const passing = sum(own.map((one) => countOf(one.webhookId) * (shares.get(keyOf(one))?.share ?? 1)));
      const reachable = agents === null ? sum(own.map(({ webhookId }) => countOf(webhookId))) : total;
      const deliveries = Math.round(passing * scale);
      return {
        agent_id: id,
        name,
        deliveries,
        beyond: Math.round(reachable * scale) - deliveries,
        exact: isCounted && own.every((one) => one.filter === null || shares.get(keyOf(one))?.complete === true),
      };
    }),
  };
  return { kind: 'done', value };
}

/** How many of a webhook's events of a span a filter lets through. `exact` false: estimated, as the numbers of a replay. */
interface FilterPreview {
  events: number;
  passed: number;
  exact: boolean;
}

/**
 * Judges a filter on the events of a webhook, within the limits of a replay.
 * @param from ISO 8601, inclusive
 * @returns null: too many other searches are running
 */
export async function previewFilter(
  parts: Parts,
  webhookId: string,
  filter: string,
  from: string,
): Promise<FilterPreview | null> {
  const { filter: ofWebhook } = eventFilterOf({ webhook_id: webhookId }, null, null);
  const all = { from, to: null, before: null, downTo: null };
  const order = { filter: ofWebhook, span: all, limit: COUNTED_EVENTS_MAX, isGone: parts.isGone };
  const tally = await parts.search.tally(order, parts.database);
  if (tally === null) return null;
  const scale = await scaleOf(parts.database, ofWebhook, all, tally);
  const pair = { webhookId, filter, agentId: '', agentName: '', webhookName: '' };
  const shares = await judgeNewest(parts, ofWebhook, { ...all, from: tally.countedFrom ?? from }, [pair]);
  const { share, complete } = shares.get(keyOf(pair))!;
  const events = sum(tally.counts.values()) * scale;
  const exact = tally.countedFrom === null && complete;
  return { events: Math.round(events), passed: Math.round(events * share), exact };
}

/** By what to multiply counts, if not all events were counted. */
async function scaleOf(
  database: Database,
  { webhookId }: EventFilter,
  { from, to }: Order['span'],
  { countedFrom }: EventTally,
): Promise<number> {
  if (countedFrom === null) return 1;
  const [whole, counted] = await Promise.all([
    estimateEvents(database, webhookId, { from, to }),
    estimateEvents(database, webhookId, { from: countedFrom, to }),
  ]);
  return Math.max(1, whole / counted);
}

const keyOf = ({ webhookId, filter }: Pick<Recipient, 'webhookId' | 'filter'>) => `${webhookId} ${filter}`;

/** `share` of the judged events that pass. `complete`: all were judged. */
interface Share {
  share: number;
  complete: boolean;
}

/** Judges the newest events of the span by each filter of their webhook. Keys are those of keyOf. */
async function judgeNewest(
  { database, judge, isGone }: Parts,
  filter: EventFilter,
  span: EventSpan,
  recipients: readonly Recipient[],
): Promise<Map<string, Share>> {
  const pairs = [...new Map(recipients.filter((one) => one.filter !== null).map((one) => [keyOf(one), one])).values()];
  if (pairs.length === 0) return new Map();
  const counts = pairs.map(() => ({ judged: 0, passed: 0, undecided: 0 }));
  const slice = {
    webhookIds: [...new Set(pairs.map(({ webhookId }) => webhookId))],
    readsBody: pairs.some((one) => one.filter!.includes('body')),
    max: SLICE_EVENTS,
    bytesMax: SLICE_BYTES_MAX,
  };
  const untilMs = performance.now() + JUDGE_MS_MAX;
  let { before } = span;
  let isWhole = false;
  for (let read = 0; read < JUDGED_EVENTS_MAX && performance.now() < untilMs && !isGone(); ) {
    const events = await readEventsToJudge(database, filter, { ...span, before }, slice);
    isWhole = events.length === 0;
    if (isWhole) break;
    await judgeSlice(judge, pairs, events, counts);
    read += events.length;
    before = events.at(-1)!.id;
  }
  return new Map(
    pairs.map((pair, index) => {
      const { judged, passed, undecided } = counts[index]!;
      return [keyOf(pair), { share: judged === 0 ? 1 : passed / judged, complete: isWhole && undecided === 0 }];
    }),
  );
}

async function judgeSlice(
  judge: FilterJudge,
  pairs: readonly Recipient[],
  events: readonly EventToJudge[],
  counts: { judged: number; passed: number; undecided: number }[],
): Promise<void> {
  const asked = events.flatMap(({ webhookId, id: _, ...event }) =>
    pairs.flatMap((pair, index) => (pair.webhookId === webhookId ? [{ ...event, filter: index }] : [])),
  );
  const judged = await judge.judge(
    pairs.map((pair) => pair.filter!),
    asked,
  );
  for (const [index, verdict] of judged.verdicts.entries()) {
    const count = counts[asked[index]!.filter]!;
    if (verdict === verdicts.undecided) count.undecided++;
    else count.judged++;
    if (verdict === verdicts.passed || verdict === verdicts.failed) count.passed++;
  }
}

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const one of numbers) total += one;
  return total;
}
