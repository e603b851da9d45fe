/** One stream: what it is sent, and whether its client keeps up. */
import type { Person } from '../auth/person.ts';
import type { NewEvent } from '../db/queries/newest-events.ts';
import type { StreamAnswer } from '../http/exchange.ts';
import { frame, HEARTBEAT } from './frame.ts';
import type { Found } from './newest.ts';

/** After so much silence a proxy in between might take the connection for dead. */
const HEARTBEAT_MS = 15_000;
/** A client that has read nothing for this long is cut. */
const SLOW_MS = 10_000;
/** How long EventSource waits before it connects again. */
const RETRY_MS = 1_000;

/** Characters of frames that the client has not read yet; past this, frames are left out. */
const HELD_CHARS_MAX = 262_144;

export class StreamClient {
  readonly person: Person;
  readonly webhookId: string | null;
  readonly sinceMs: number;
  readonly #answer: StreamAnswer;
  /** What was found while older events were still being looked up; null once they have been sent. */
  #early: Found[] | null;
  /** Ids that `catchUp` sent: a later look may find some of them again. */
  readonly #caughtUp = new Set<string>();
  #lastId: string;
  #wroteMs: number;
  /** When it stopped to read; null: it keeps up. */
  #behindSinceMs: number | null = null;
  #heldChars = 0;
  /** Events were left out since. */
  #missed = false;

  /** @param after the last event that it knows; `catchUp` is then called with what came since. */
  constructor(answer: StreamAnswer, person: Person, webhookId: string | null, after: string | null, nowMs: number) {
    this.person = person;
    this.webhookId = webhookId;
    this.sinceMs = nowMs;
    this.#answer = answer;
    this.#early = after === null ? null : [];
    this.#lastId = after ?? '';
    this.#wroteMs = nowMs;
    this.send(`retry: ${RETRY_MS}\n\n`, nowMs);
  }

  /** Whole frames. False: left out, since the client is too far behind. */
  send(text: string, nowMs: number): boolean {
    if (this.#behindSinceMs !== null && this.#heldChars + text.length > HELD_CHARS_MAX) return false;
    this.#write(text, nowMs);
    return true;
  }

  /** What was stored since, and some of what it may know. */
  catchUp(found: Found, nowMs: number): void {
    const early = this.#early ?? [];
    this.#early = null;
    this.events(found, nowMs);
    for (const { id } of found.events) this.#caughtUp.add(id);
    for (const later of early) this.events(later, nowMs);
  }

  /** Each event once, and `gap` before them when there were more. */
  events(found: Found, nowMs: number): void {
    if (this.#early !== null) return void this.#early.push(found);
    const unsent = found.events.filter(({ id }) => !this.#caughtUp.delete(id));
    const text = (found.more ? GAP : '') + unsent.map((event) => this.#frameOf(event)).join('');
    if (text !== '' && !this.send(text, nowMs)) this.#missed = true;
  }

  /** Once a second. False: the client does not read, and is to be cut. */
  keepsUp(nowMs: number): boolean {
    if (this.#behindSinceMs !== null) {
      // Nothing but a write says whether the client reads again.
      this.#write(HEARTBEAT, nowMs);
      if (this.#behindSinceMs !== null) return nowMs - this.#behindSinceMs < SLOW_MS;
    }
    if (this.#missed) this.#write(GAP, nowMs);
    else if (nowMs - this.#wroteMs >= HEARTBEAT_MS) this.#write(HEARTBEAT, nowMs);
    this.#missed = false;
    return true;
  }

  end(): void {
    this.#answer.end();
  }

  cut(): void {
    this.#answer.cut();
  }

  #write(text: string, nowMs: number): void {
    this.#wroteMs = nowMs;
    const flows = this.#answer.write(text);
    this.#behindSinceMs = flows ? null : (this.#behindSinceMs ?? nowMs);
    this.#heldChars = flows ? 0 : this.#heldChars + text.length;
  }

  /** An event that was committed late has a lower id than one that was sent: the client goes on from the highest. */
  #frameOf(event: NewEvent): string {
    const isNewest = event.id > this.#lastId;
    if (isNewest) this.#lastId = event.id;
    return frame('event', JSON.stringify(event), isNewest ? event.id : undefined);
  }
}

/** Some events were left out: reload. */
const GAP = frame('gap', '{}');
