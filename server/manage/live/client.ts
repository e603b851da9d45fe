/** One stream: sends frames to its client and tracks whether the client keeps up. */
import type { StreamAnswer } from '../../base/http/stream.ts';
import type { NewEvent } from '../../store/queries/events/events.ts';
import type { Person } from '../auth/person.ts';
import type { FoundEvents } from './newest.ts';

/** Heartbeat interval: a proxy may close a connection that is silent for longer. */
const HEARTBEAT_MS = 15_000;
/** A client that has read nothing for this long is disconnected. */
export const SLOW_MS = 10_000;
/** Delay before EventSource reconnects. */
const RETRY_MS = 1_000;

/** Comment that keeps a proxy from treating the connection as idle. */
const HEARTBEAT = ':\n\n';

/** Characters of frames that the client has not read yet; beyond this limit, frames are dropped. */
const HELD_CHARS_MAX = 262_144;

export class StreamClient {
  readonly person: Person;
  readonly webhookId: string | null;
  readonly sinceMs: number;
  readonly #answer: StreamAnswer;
  /** Events found while older events were still being looked up; null once they are sent. */
  #early: FoundEvents[] | null;
  /** Ids that `catchUp` sent. A later poll may find some of them again. */
  readonly #caughtUp = new Set<string>();
  #lastId: string;
  #wroteMs: number;
  /** When the client stopped reading; null: it keeps up. */
  #behindSinceMs: number | null = null;
  #heldChars = 0;
  /** Events were dropped since the last `gap`. */
  #missed = false;

  /** @param after the last event that the client knows; `catchUp` is then called with the later ones */
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

  /** Sends whole frames. Returns false if they were dropped because the client is too far behind. */
  send(text: string, nowMs: number): boolean {
    if (this.#behindSinceMs !== null && this.#heldChars + text.length > HELD_CHARS_MAX) return false;
    this.#write(text, nowMs);
    return true;
  }

  /** Sends the events stored after the last one that the client knows, and some that it may know already. */
  catchUp(found: FoundEvents, nowMs: number): void {
    const early = this.#early ?? [];
    this.#early = null;
    this.events(found, nowMs);
    for (const { id } of found.events) this.#caughtUp.add(id);
    for (const later of early) this.events(later, nowMs);
  }

  /** Sends each event once, preceded by `gap` if more were found. */
  events(found: FoundEvents, nowMs: number): void {
    if (this.#early !== null) return void this.#early.push(found);
    const unsent = found.events.filter(({ id }) => !this.#caughtUp.delete(id));
    const text = (found.more ? GAP : '') + unsent.map((event) => this.#frameOf(event)).join('');
    if (text !== '' && !this.send(text, nowMs)) this.#missed = true;
  }

  /** Called once a second. Returns false if the client does not read and must be disconnected. */
  keepsUp(nowMs: number): boolean {
    if (this.#behindSinceMs !== null) {
      // Only a write reveals whether the client reads again.
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

  /** An event that was committed late has a lower id than one already sent. The client resumes from the highest id. */
  #frameOf(event: NewEvent): string {
    const isNewest = event.id > this.#lastId;
    if (isNewest) this.#lastId = event.id;
    return frame('event', JSON.stringify(event), isNewest ? event.id : undefined);
  }
}

/** Events were dropped: the client has to reload. */
const GAP = frame('gap', '{}');

/**
 * Returns one server-sent event as text (WHATWG HTML, section 9.2).
 * @param data one line: JSON without line ends
 * @param id sent by EventSource as Last-Event-ID when it reconnects
 */
export function frame(event: string, data: string, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`;
}
