/**
 * Polls new events for all streams of this process: one query a second, whatever the number of streams, and none without streams.
 * Ids are not in commit order, so each poll re-reads the seconds before it and remembers the events already found.
 */
import type { Database } from '../../store/connect/pool.ts';
import { type NewEvent, readNewest } from '../../store/queries/events/events.ts';

const EVERY_MS = 1_000;
/**
 * An event may be committed this long after its timestamp: COMMIT_TIMEOUT_MS, the wait before it, and the clock difference
 * between machines.
 */
export const OVERLAP_MS = 15_000;
/** Events per poll. More in a second would be unreadable. */
export const LOOK_EVENTS_MAX = 200;

export interface FoundEvents {
  /** Oldest first. */
  events: readonly NewEvent[];
  /** More events were stored than read. */
  more: boolean;
}

/** @param webhookId webhook of the events; null: all webhooks */
type OnFound = (webhookId: string | null, found: FoundEvents) => void;

interface Watch {
  watchers: number;
  /** Ids already found, with their times in Unix milliseconds. */
  seen: Map<string, number>;
  /** The first poll, which finds the events that already exist. */
  begun: Promise<void> | null;
}

export class NewestEvents {
  readonly #database: Database;
  readonly #onFound: OnFound;
  readonly #everyMs: number;
  /** By webhook id; '' for all webhooks. */
  readonly #watches = new Map<string, Watch>();
  #timer: NodeJS.Timeout | null = null;
  #lastLookMs = 0;

  constructor(database: Database, onFound: OnFound, everyMs = EVERY_MS) {
    this.#database = database;
    this.#onFound = onFound;
    this.#everyMs = everyMs;
  }

  /** Resolves once every later commit will be found. Rejects with DatabaseUnavailable. */
  async watch(webhookId: string | null): Promise<void> {
    const watch = this.#watches.get(webhookId ?? '') ?? { watchers: 0, seen: new Map(), begun: null };
    this.#watches.set(webhookId ?? '', watch);
    watch.watchers++;
    watch.begun ??= this.#begin(webhookId, watch);
    try {
      await watch.begun;
    } catch (error) {
      watch.begun = null;
      this.unwatch(webhookId);
      throw error;
    }
    this.#timer ??= setTimeout(() => void this.#look(), this.#everyMs);
  }

  unwatch(webhookId: string | null): void {
    const watch = this.#watches.get(webhookId ?? '');
    if (watch !== undefined && --watch.watchers === 0) this.#watches.delete(webhookId ?? '');
  }

  async #begin(webhookId: string | null, watch: Watch): Promise<void> {
    if (this.#lastLookMs === 0) this.#lastLookMs = Date.now();
    // Reads as far back as the next poll will; those events are not new to this watch.
    const rows = await readNewest(this.#database, [webhookId], this.#lastLookMs - OVERLAP_MS, LOOK_EVENTS_MAX);
    for (const { event } of rows) watch.seen.set(event.id, Date.parse(event.received_at));
  }

  async #look(): Promise<void> {
    const nowMs = Date.now();
    // Not advanced by a failed poll, so after an outage the poll starts before it: other machines may have had a database.
    const fromMs = this.#lastLookMs - OVERLAP_MS;
    const watched = [...this.#watches].filter(([, watch]) => watch.begun !== null).map(([key]) => key || null);
    const rows = await readNewest(this.#database, watched, fromMs, LOOK_EVENTS_MAX).catch(() => null);
    if (rows !== null) {
      this.#lastLookMs = nowMs;
      const found = new Map(watched.map((webhookId): [string | null, NewEvent[]] => [webhookId, []]));
      for (const row of rows) found.get(row.watched)!.push(row.event);
      for (const [webhookId, events] of found) this.#take(webhookId, events, fromMs);
    }
    if (this.#watches.size > 0) this.#timer = setTimeout(() => void this.#look(), this.#everyMs);
    else {
      this.#timer = null;
      this.#lastLookMs = 0;
    }
  }

  #take(webhookId: string | null, newestFirst: readonly NewEvent[], fromMs: number): void {
    const seen = this.#watches.get(webhookId ?? '')?.seen;
    if (seen === undefined) return;
    const events = newestFirst.filter(({ id }) => !seen.has(id)).reverse();
    for (const { id, received_at } of events) seen.set(id, Date.parse(received_at));
    for (const [id, ms] of seen) if (ms < fromMs) seen.delete(id);
    if (events.length > 0) this.#onFound(webhookId, { events, more: events.length === LOOK_EVENTS_MAX });
  }
}
