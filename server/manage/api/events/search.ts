/**
 * Searches events by filters that have no index: scans newest first, slice by slice, with a time limit. A search without such a filter is one
 * statement and always complete: the primary key gives the order and contains the webhook, and past days have an index by webhook.
 */
import { DAY_MS } from '../../../base/time/durations.ts';
import type { Database, Statement } from '../../../store/connect/pool.ts';
import { uuidv7Milliseconds } from '../../../store/ids.ts';
import type { EventFilter, EventSpan } from '../../../store/queries/events/conditions.ts';
import { countByWebhook, type EventRecord, listEvents, sliceEnd } from '../../../store/queries/events/events.ts';

/**
 * Events per slice: 10 to 40 ms of work for one statement, after which other requests get the connection. The first slice is
 * small, because most filters fill their page from it.
 */
const FIRST_SLICE_EVENTS = 1_000;
const SLICE_EVENTS_MAX = 20_000;
const SLICE_GROWTH = 4;
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
  limit: number;
  /** True once the client has left; absent: it waits for the result. */
  isGone?: (() => boolean) | undefined;
}

export interface SearchResult {
  rows: EventRecord[];
  /** Id of the last event scanned, if the time limit ended the search; null if the search is complete. */
  stoppedAt: string | null;
}

/** Matches by webhook id, and in total. `exact` false: there may be more. */
interface EventTally {
  counts: Map<string, number>;
  total: number;
  exact: boolean;
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

  /** Finds matches, newest first. Null: SEARCHES_MAX other searches are running. @param database read instead of the usual one */
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
  async count(order: Search, database = this.#database): Promise<{ count: number; exact: boolean } | null> {
    const msMax = this.#msMax === Infinity ? this.#msMax : Math.min(COUNT_MS_MAX, this.#msMax);
    const tally = await this.tally(order, database, msMax);
    return tally && { count: Math.min(tally.total, order.limit), exact: tally.exact };
  }

  /** Counts the matches by webhook, within the time limit of a search. A total over `limit` means that there may be more. */
  async tally(
    { filter, span, limit, isGone }: Search,
    database = this.#database,
    msMax = this.#msMax,
  ): Promise<EventTally | null> {
    const counts = new Map<string, number>();
    let total = 0;
    const read = async (slice: EventSpan, plan: Plan) => {
      for (const row of await countByWebhook(database, filter, slice, limit + 1 - total, plan)) {
        total += row.count;
        counts.set(row.webhookId, (counts.get(row.webhookId) ?? 0) + row.count);
      }
      return total > limit;
    };
    // Most counts reach their limit or the end in one large slice: two statements instead of four or six.
    const first = filter.text === null ? SLICE_EVENTS_MAX : FIRST_SLICE_EVENTS;
    const end = await this.#bySlices(
      { database, filter, span, isGone, untilMs: performance.now() + msMax, first },
      read,
    );
    return end && { counts, total, exact: total <= limit && end.stoppedAt === null };
  }

  /** Reads the range slice by slice until `read` returns true or the time is over. Null: SEARCHES_MAX other searches are running. */
  async #bySlices(
    { database, filter, span, isGone, untilMs, first }: Omit<Search, 'limit'> & SliceOrder,
    read: (slice: EventSpan, plan: Plan) => Promise<boolean>,
  ): Promise<{ stoppedAt: string | null } | null> {
    const { agentId, webhookId, text, deliveryState } = filter;
    const counted = { agentId, webhookId: agentId === null ? webhookId : null };
    const isOfOne = counted.webhookId !== null;
    // Without this plan, PostgreSQL would read all events of the day instead of their keys.
    const plan = isOfOne && deliveryState === null ? 'keyed' : undefined;
    const isWhole = isPlain({ ...filter, webhookId: null });
    let { before } = span;
    let events = first;
    let holdsPlace = false;
    try {
      for (const range of isOfOne ? [span] : rangesOf(filter, span, Date.now()))
        for (;;) {
          const slice = { rows: events, bytes: text === null ? null : SLICE_BYTES_MAX };
          const rest = { from: range.from, to: range.to, before, downTo: null };
          const downTo = isWhole ? null : ((await sliceEnd(database, counted, rest, slice, plan)) ?? null);
          if (await read({ ...rest, downTo }, plan)) return { stoppedAt: null };
          if (downTo === null) break;
          events = Math.min(events * SLICE_GROWTH, SLICE_EVENTS_MAX);
          if (isGone?.() || performance.now() >= untilMs) return { stoppedAt: downTo };
          if (!holdsPlace && this.#running >= SEARCHES_MAX) return null;
          if (!holdsPlace) this.#running++;
          holdsPlace = true;
          before = downTo;
        }
      return { stoppedAt: null };
    } finally {
      if (holdsPlace) this.#running--;
    }
  }
}

type Plan = Statement['plan'];

/**
 * Splits a range into its newest day and the rest. A statement is planned for all partitions of its range: planning takes 0.7 ms for 34
 * partitions and 0.2 ms for a day, and most lists end within a day. An agent's deliveries are not partitioned by day, so they are not split.
 */
function rangesOf(
  { agentId }: EventFilter,
  { from, to, before }: Search['span'],
  nowMs: number,
): Pick<EventSpan, 'from' | 'to'>[] {
  const endMs = Math.min(to === null ? nowMs : Date.parse(to), before === null ? nowMs : uuidv7Milliseconds(before));
  const day = new Date(endMs - DAY_MS).toISOString();
  if (agentId !== null || (from !== null && from >= day)) return [{ from, to }];
  return [
    { from: day, to },
    { from, to: day },
  ];
}

/** Whether there is no filter besides time, which the order of the index covers. */
function isPlain(filter: EventFilter): boolean {
  return Object.values(filter).every((value) => value === null);
}
