/**
 * New events for everybody who watches in this process: one query a second whatever their number, and none while there is nobody.
 * Ids are not in the order of commits, so each look re-reads the seconds before it, and remembers what it has seen.
 */
import type { Database } from '../db/pool.ts';
import { type NewEvent, readNewest } from '../db/queries/newest-events.ts';

const EVERY_MS = 1_000;
/** An event may be committed this long after its time: COMMIT_TIMEOUT_MS, its wait before that, and what clocks of machines differ. */
export const OVERLAP_MS = 15_000;
/** Newest events of one look: more in a second nobody can read. */
export const LOOK_EVENTS_MAX = 200;

/** What one look found. */
export interface Found {
  /** Oldest first. */
  events: readonly NewEvent[];
  /** More came than were read. */
  more: boolean;
}

/** @param webhookId of which Found is; null: of all webhooks. */
type OnFound = (webhookId: string | null, found: Found) => void;

interface Watch {
  watchers: number;
  /** Ids that were found already, and their times. */
  seen: Map<string, number>;
  /** The first look finds what was there before. */
  begun: Promise<void> | null;
}

export class NewestEvents {
  readonly #database: Database;
  readonly #onFound: OnFound;
  /** By webhook; '' is all of them. */
  readonly #watches = new Map<string, Watch>();
  #timer: NodeJS.Timeout | null = null;
  #lastLookMs = 0;

  constructor(database: Database, onFound: OnFound) {
    this.#database = database;
    this.#onFound = onFound;
  }

  /** Resolves when whatever is committed from now on will be found. Rejects with DatabaseUnavailable. */
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
    this.#timer ??= setTimeout(() => void this.#look(), EVERY_MS);
  }

  unwatch(webhookId: string | null): void {
    const watch = this.#watches.get(webhookId ?? '');
    if (watch !== undefined && --watch.watchers === 0) this.#watches.delete(webhookId ?? '');
  }

  async #begin(webhookId: string | null, watch: Watch): Promise<void> {
    if (this.#lastLookMs === 0) this.#lastLookMs = Date.now();
    // As far back as the next look will read: what lies there is not new to this watch.
    const rows = await readNewest(this.#database, [webhookId], this.#lastLookMs - OVERLAP_MS, LOOK_EVENTS_MAX);
    for (const { event } of rows) watch.seen.set(event.id, Date.parse(event.received_at));
  }

  async #look(): Promise<void> {
    const nowMs = Date.now();
    // After an outage from before it: other machines may have had a database.
    const fromMs = this.#lastLookMs - OVERLAP_MS;
    const watched = [...this.#watches].filter(([, watch]) => watch.begun !== null).map(([key]) => key || null);
    const rows = await readNewest(this.#database, watched, fromMs, LOOK_EVENTS_MAX).catch(() => null);
    if (rows !== null) {
      this.#lastLookMs = nowMs;
      for (const webhookId of watched)
        this.#take(
          webhookId,
          rows.filter((row) => row.watched === webhookId).map(({ event }) => event),
          fromMs,
        );
    }
    if (this.#watches.size > 0) this.#timer = setTimeout(() => void this.#look(), EVERY_MS);
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
