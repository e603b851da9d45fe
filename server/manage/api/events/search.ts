/** Searches events by filters that have no index: scans newest first, slice by slice, with a time limit. */

import { DAY_MS } from '../../../base/time/durations.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { uuidAt, uuidv7Milliseconds, uuidv7Time } from '../../../store/ids.ts';
import type { EventFilter, EventSpan } from '../../../store/queries/events/conditions.ts';
import { countEvents, type EventRecord, listEvents, sliceEnd } from '../../../store/queries/events/events.ts';
import { countByWebhook } from '../../../store/queries/replays/preview.ts';
import { readUnindexedFrom } from '../../../store/retention/day-indexes.ts';

/**
 * Events per slice: 10 to 40 ms of work for one statement, after which other requests get the connection. The first slice is
 * small, because most filters fill their page from it.
 */
const FIRST_SLICE_EVENTS = 1_000;
const SLICE_EVENTS_MAX = 20_000;
const SLICE_GROWTH = 4;
/**
 * Of one webhook, the slices after the first are times, of about as many events, which nothing has to read to bound them: the primary key
 * answers the query, and walks a million events in 60 ms of processor time. In slices of 20,000 it took 240.
 */
const KEYED_SLICE_EVENTS = 1_000_000;
const KEYED_SLICE_MS_MIN = 60_000;
/** Bytes of all bodies in one slice when bodies are searched: 20 ms at 2.3 us a KiB. */
const SLICE_BYTES_MAX = 8_388_608;
/** Time limit of a search. The response then contains the matches so far and a cursor to continue from. */
const SEARCH_MS_MAX = 500;
/** Time limit of a count, which is only shown beside a list. */
const COUNT_MS_MAX = 100;
/** Concurrent searches per process that go past their first slice; each takes one of DB_POOL_MAX connections. */
export const SEARCHES_MAX = 2;

export interface Search {
  filter: EventFilter;
  span: Pick<EventSpan, 'from' | 'to' | 'before'>;
  /** Number of events wanted. */
  limit: number;
  /** True once the client has left; absent: it waits for the result. */
  isGone?: (() => boolean) | undefined;
}

export interface SearchResult {
  rows: EventRecord[];
  /** Id of the last event scanned, if the time limit ended the search; null if the search is complete. */
  stoppedAt: string | null;
}

/** Matches by webhook id. `countedFrom`: ISO, older events were not looked at; null: all were. */
export interface EventTally {
  counts: Map<string, number>;
  countedFrom: string | null;
}

interface SliceOrder {
  database: Database;
  untilMs: number;
  /** Events of the first slice. */
  first: number;
}

export class EventSearch {
  readonly #database: Database;
  readonly #msMax: number;
  #running = 0;

  /** @param msMax time limit in milliseconds; Infinity for a command, whose user waits for the whole result */
  constructor(database: Database, msMax: number = SEARCH_MS_MAX) {
    this.#database = database;
    this.#msMax = msMax;
  }

  /** Newest first. Null: SEARCHES_MAX other searches are running. @param database where to read instead */
  async find({ filter, span, limit, isGone }: Search, database = this.#database): Promise<SearchResult | null> {
    const rows: EventRecord[] = [];
    const read = async (slice: EventSpan, plan: Plan) => {
      rows.push(...(await listEvents(database, filter, slice, limit - rows.length, plan)));
      return rows.length === limit;
    };
    const untilMs = performance.now() + this.#msMax;
    const order = { database, filter, span, isGone, untilMs, first: FIRST_SLICE_EVENTS };
    const end = await this.#bySlices(order, read);
    return end === null ? null : { rows, stoppedAt: end.stoppedAt };
  }

  /** Counts the matches up to `limit`. `exact` is false if there may be more. Null: SEARCHES_MAX other searches are running. */
  async count(
    { filter, span, limit, isGone }: Search,
    database = this.#database,
  ): Promise<{ count: number; exact: boolean } | null> {
    let count = 0;
    const read = async (slice: EventSpan, plan: Plan) => {
      count += await countEvents(database, filter, slice, limit + 1 - count, plan);
      return count > limit;
    };
    const untilMs = performance.now() + (this.#msMax === Infinity ? this.#msMax : Math.min(COUNT_MS_MAX, this.#msMax));
    // Most counts reach their limit or the end in one large slice: two statements instead of four or six.
    const first = filter.text === null ? SLICE_EVENTS_MAX : FIRST_SLICE_EVENTS;
    const end = await this.#bySlices({ database, filter, span, isGone, untilMs, first }, read);
    if (end === null) return null;
    return { count: Math.min(count, limit), exact: count <= limit && end.stoppedAt === null };
  }

  /** Counts the newest `limit` matches by webhook. Null: SEARCHES_MAX other searches are running. */
  async tally({ filter, span, limit, isGone }: Search, database = this.#database): Promise<EventTally | null> {
    const counts = new Map<string, number>();
    let count = 0;
    let countedFrom: string | null = null;
    const read = async (slice: EventSpan) => {
      for (const row of await countByWebhook(database, filter, slice, limit + 1 - count)) {
        count += row.count;
        counts.set(row.webhookId, (counts.get(row.webhookId) ?? 0) + row.count);
        if (countedFrom === null || row.oldestAt < countedFrom) countedFrom = row.oldestAt;
      }
      return count > limit;
    };
    const untilMs = performance.now() + this.#msMax;
    const first = filter.text === null ? SLICE_EVENTS_MAX : FIRST_SLICE_EVENTS;
    const end = await this.#bySlices({ database, filter, span, isGone, untilMs, first }, read);
    if (end === null) return null;
    if (count > limit) return { counts, countedFrom };
    return { counts, countedFrom: end.stoppedAt === null ? null : uuidv7Time(end.stoppedAt) };
  }

  /** Reads the range slice by slice until `read` has enough or the time is over. */
  async #bySlices(
    { database, filter, span, isGone, untilMs, first }: Omit<Search, 'limit'> & SliceOrder,
    read: (slice: EventSpan, plan: Plan) => Promise<boolean>,
  ): Promise<{ stoppedAt: string | null } | null> {
    const { agentId, webhookId, text } = filter;
    const indexedToMs = webhookId === null || agentId !== null ? 0 : await readUnindexedFrom(database);
    let { before } = span;
    let events = first;
    let ms: number | null = null;
    let holdsPlace = false;
    try {
      for (const { isIndexed, ...range } of rangesOf(filter, span, Date.now(), indexedToMs)) {
        const counted = { agentId, webhookId: isIndexed ? webhookId : null };
        const isWhole = isPlain(isIndexed ? { ...filter, webhookId: null } : filter);
        const isKeyed = !isWhole && isPlain({ ...filter, webhookId: null });
        for (;;) {
          const slice = { rows: events, bytes: text === null ? null : SLICE_BYTES_MAX };
          const rest = { ...range, before, downTo: null };
          const ends = () => (ms === null ? sliceEnd(database, counted, rest, slice) : timeEnd(rest, ms));
          const downTo = isWhole ? null : ((await ends()) ?? null);
          if (await read({ ...rest, downTo }, isWhole || ms === null ? undefined : 'keyed')) return { stoppedAt: null };
          if (downTo === null) break;
          if (isKeyed) {
            const spanMs = latest(rest, Date.now()) - uuidv7Milliseconds(downTo);
            ms = Math.max(KEYED_SLICE_MS_MIN, ms === null ? (spanMs * KEYED_SLICE_EVENTS) / events : ms * SLICE_GROWTH);
          }
          events = Math.min(events * SLICE_GROWTH, SLICE_EVENTS_MAX);
          if (isGone?.() || performance.now() >= untilMs) return { stoppedAt: downTo };
          if (!holdsPlace && this.#running >= SEARCHES_MAX) return null;
          if (!holdsPlace) this.#running++;
          holdsPlace = true;
          before = downTo;
        }
      }
      return { stoppedAt: null };
    } finally {
      if (holdsPlace) this.#running--;
    }
  }
}

/** For a keyed slice, the planner would choose to read all events of the day instead of their keys. */
type Plan = 'keyed' | undefined;

interface Range extends Pick<EventSpan, 'from' | 'to'> {
  /** The events of each webhook have an index. */
  isIndexed: boolean;
}

/**
 * The newest day of a range, then the rest, newest first. A statement is planned for all partitions of its range: for 34 of them planning
 * takes 0.7 ms, for a day 0.2 ms, and most lists end in it. An agent's deliveries are not partitioned by day.
 * @param indexedToMs events before this time have an index by webhook
 */
function rangesOf(
  { agentId }: EventFilter,
  { from, to, before }: Search['span'],
  nowMs: number,
  indexedToMs: number,
): Range[] {
  if (agentId !== null) return [{ from, to, isIndexed: false }];
  const endMs = latest({ to, before }, nowMs);
  const fromMs = from === null ? 0 : Date.parse(from);
  const cutsMs = [endMs - DAY_MS, indexedToMs].filter((ms) => ms > fromMs && ms < endMs).sort((a, b) => b - a);
  const bounds = [to, ...cutsMs.map((ms) => new Date(ms).toISOString()), from];
  return [endMs, ...cutsMs].map((ms, i) => ({ from: bounds[i + 1]!, to: bounds[i]!, isIndexed: ms <= indexedToMs }));
}

function latest({ to, before }: Pick<EventSpan, 'to' | 'before'>, nowMs: number): number {
  return Math.min(
    nowMs,
    ...(to === null ? [] : [Date.parse(to)]),
    ...(before === null ? [] : [uuidv7Milliseconds(before)]),
  );
}

/** The first id of the last `ms` milliseconds of a range; null: it is no longer. */
function timeEnd(range: EventSpan, ms: number): string | null {
  const endMs = latest(range, Date.now()) - ms;
  return endMs > (range.from === null ? 0 : Date.parse(range.from)) ? uuidAt(endMs) : null;
}

/** No filter besides time, which the index order covers. */
function isPlain(filter: EventFilter): boolean {
  return Object.values(filter).every((value) => value === null);
}
