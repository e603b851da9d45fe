/** Lists of events by filters that have no index: looked through newest first, a slice at a time, for a while at most. */
import type { Database } from '../../db/pool.ts';
import { type EventFilter, type EventSpan, listEvents, sliceEnd } from '../../db/queries/list-events.ts';
import type { EventRecord } from '../../db/queries/read-events.ts';

/**
 * Events of one slice: 10 to 40 ms of work for one statement, after which others get the connection. The first slice is small:
 * most filters find their page in it, and then it is the whole cost.
 */
const FIRST_SLICE_EVENTS = 1_000;
const SLICE_EVENTS_MAX = 20_000;
const SLICE_GROWTH = 4;
/** Bodies of one slice together, where bodies are searched: 20 ms at 2.3 us a KiB. */
const SLICE_BYTES_MAX = 8_388_608;
/** A request looks for matches this long; then it is answered with what it found, and where to go on. */
const SEARCH_MS_MAX = 500;
/** Searches of a process that go past their first slice at the same time; each takes one of DB_POOL_MAX connections. */
export const SEARCHES_MAX = 2;

export interface Search {
  filter: EventFilter;
  span: Pick<EventSpan, 'from' | 'to' | 'before'>;
  /** Events that are wanted. */
  limit: number;
  /** True: nobody waits for the answer any more. */
  isGone?: () => boolean;
}

export interface Found {
  rows: EventRecord[];
  /** Id of the last event that was looked at, when time was up before there were enough, or no more. */
  stoppedAt: string | null;
}

export class EventSearch {
  readonly #database: Database;
  readonly #msMax: number;
  #running = 0;

  /** @param msMax Infinity for a command, whose user waits as long as it takes. */
  constructor(database: Database, msMax: number = SEARCH_MS_MAX) {
    this.#database = database;
    this.#msMax = msMax;
  }

  /** Newest first. Null: SEARCHES_MAX others are under way. */
  async find({ filter, span, limit, isGone = () => false }: Search): Promise<Found | null> {
    if (isPlain(filter)) {
      const rows = await listEvents(this.#database, filter, { ...span, downTo: null }, limit);
      return { rows, stoppedAt: null };
    }
    const rows: EventRecord[] = [];
    const untilMs = performance.now() + this.#msMax;
    let { before } = span;
    let holdsPlace = false;
    try {
      for (let events = FIRST_SLICE_EVENTS; ; events = Math.min(events * SLICE_GROWTH, SLICE_EVENTS_MAX)) {
        const slice = { rows: events, bytes: filter.text === null ? null : SLICE_BYTES_MAX };
        const downTo = (await sliceEnd(this.#database, filter, { ...span, before, downTo: null }, slice)) ?? null;
        rows.push(...(await listEvents(this.#database, filter, { ...span, before, downTo }, limit - rows.length)));
        if (downTo === null || rows.length === limit) return { rows, stoppedAt: null };
        if (isGone() || performance.now() >= untilMs) return { rows, stoppedAt: downTo };
        if (!holdsPlace && this.#running >= SEARCHES_MAX) return null;
        if (!holdsPlace) this.#running++;
        holdsPlace = true;
        before = downTo;
      }
    } finally {
      if (holdsPlace) this.#running--;
    }
  }
}

/** By time alone, which is how events lie. */
function isPlain(filter: EventFilter): boolean {
  return Object.values(filter).every((value) => value === null);
}
