/** The streams of a process: what each client receives, how many there may be, and when they end. */
import type { Exchange, Unanswered } from '../../base/http/exchange.ts';
import { type Problem, problemLater } from '../../base/http/problem.ts';
import { coalesced } from '../../base/time/every.ts';
import type { Role } from '../../model/users.ts';
import type { Database } from '../../store/connect/pool.ts';
import { uuidv7Milliseconds } from '../../store/ids.ts';
import { readNewest } from '../../store/queries/events/events.ts';
import { readCurrentRoles } from '../../store/queries/users/users.ts';
import { USER_SESSION_IDLE_SECONDS } from '../auth/people.ts';
import type { Person } from '../auth/person.ts';
import { frame, StreamClient } from './client.ts';
import type { History, Live } from './counters.ts';
import { type FoundEvents, LOOK_EVENTS_MAX, NewestEvents, OVERLAP_MS } from './newest.ts';

const EVERY_MS = 1_000;
/** Interval of the authorization check. Changes are announced; this check finds expiries and missed announcements. */
export const RECHECK_MS = 15_000;
/** A JWT cannot be rechecked after its request. Its streams end after this time and reconnect with a newer one. */
const JWT_STREAM_MS = 300_000;
export const CONTENT_TYPE = 'text/event-stream';

interface StreamsParts {
  database: Database;
  history: History;
  /** STREAMS_MAX */
  clientsMax: number;
  /** USER_STREAMS_MAX */
  userClientsMax: number;
  onCut: () => void;
}

interface StreamRequest {
  /** Only events of this webhook; null: all webhooks. */
  webhookId: string | null;
  /** The last event that the client knows. */
  after: string | null;
}

export class Streams {
  readonly #parts: StreamsParts;
  readonly #newest: NewestEvents;
  readonly #clients = new Set<StreamClient>();
  /** By the webhook that they watch; null: all webhooks. */
  readonly #watching = new Map<string | null, Set<StreamClient>>();
  /** Streams that are admitted but not yet open; they count toward the limits. */
  readonly #opening = new Set<Person>();
  #timer: NodeJS.Timeout | null = null;
  #closed = false;
  #recheckDueMs = Number.POSITIVE_INFINITY;
  /**
   * Ends the streams whose session, token or user has ended or has another role, with one query for all of them. While the database is
   * unavailable the streams continue, and are checked as soon as it is back.
   */
  readonly recheck = coalesced(() => this.#recheck());

  constructor(parts: StreamsParts) {
    this.#parts = parts;
    this.#newest = new NewestEvents(parts.database, (webhookId, found) => {
      for (const client of this.#watching.get(webhookId) ?? []) client.events(found, performance.now());
    });
  }

  get size(): number {
    return this.#clients.size;
  }

  /**
   * Opens a stream. Rejects with DatabaseUnavailable.
   * @param person as authenticated in this request: a separate object for each request
   */
  async open(exchange: Exchange, person: Person, { webhookId, after }: StreamRequest): Promise<Unanswered | Problem> {
    if (this.#closed || this.#clients.size + this.#opening.size >= this.#parts.clientsMax)
      return problemLater('streams_full', 1);
    if (this.#countOf(person.id) >= this.#parts.userClientsMax) return problemLater('user_streams_full', 1);
    // EventSource never sends HEAD. A HEAD request gets only the response head, and no stream is opened.
    if (exchange.method === 'HEAD') {
      exchange.stream(CONTENT_TYPE);
      return { kind: 'streaming' };
    }
    this.#opening.add(person);
    try {
      await this.#newest.watch(webhookId);
    } finally {
      this.#opening.delete(person);
    }
    // Without this header nginx buffers a response before passing it on.
    exchange.setHeader('x-accel-buffering', 'no');
    const answer = this.#closed ? null : exchange.stream(CONTENT_TYPE);
    if (answer === null) {
      this.#newest.unwatch(webhookId);
      return problemLater('streams_full', 1);
    }
    const client = new StreamClient(answer, person, webhookId, after, performance.now());
    this.#clients.add(client);
    this.#watching.set(webhookId, (this.#watching.get(webhookId) ?? new Set()).add(client));
    exchange.whenGone(() => this.#forget(client));
    this.#timer ??= setInterval(() => this.#everySecond(), EVERY_MS);
    if (this.#recheckDueMs === Number.POSITIVE_INFINITY) this.#recheckDueMs = performance.now() + RECHECK_MS;
    const { latest } = this.#parts.history;
    if (latest !== null) client.send(frame('counters', JSON.stringify(latest)), performance.now());
    if (after !== null) await this.#catchUp(client, after);
    // Announcements made while the stream was opening did not reach it.
    await this.#check([client]);
    return { kind: 'streaming' };
  }

  /** Sends the counters of a new second to all streams. */
  live(live: Live): void {
    if (this.#clients.size === 0) return;
    const text = frame('counters', JSON.stringify(live));
    for (const client of this.#clients) client.send(text, performance.now());
  }

  /** Called when a user changed. Resolves once every stream that this user may not read any more has ended. */
  async personChanged(userId: string): Promise<void> {
    if ([...this.#clients].some(({ person }) => person.id === userId)) await this.recheck();
  }

  /** Ends all streams and refuses new ones. */
  close(): void {
    this.#closed = true;
    for (const client of [...this.#clients]) this.#end(client);
  }

  #countOf(userId: string): number {
    let count = 0;
    for (const { id } of this.#opening) if (id === userId) count++;
    for (const { person } of this.#clients) if (person.id === userId) count++;
    return count;
  }

  /** Reads from before the last known event, because some events committed after it have a lower id. */
  async #catchUp(client: StreamClient, after: string): Promise<void> {
    const unknown: FoundEvents = { events: [], more: true };
    const fromMs = uuidv7Milliseconds(after) - OVERLAP_MS;
    const found = await readNewest(this.#parts.database, [client.webhookId], fromMs, LOOK_EVENTS_MAX + 1).then(
      (rows) => ({
        events: rows
          .slice(0, LOOK_EVENTS_MAX)
          .map(({ event }) => event)
          .reverse(),
        more: rows.length > LOOK_EVENTS_MAX,
      }),
      () => unknown,
    );
    client.catchUp(found, performance.now());
  }

  async #recheck(): Promise<void> {
    if (this.#clients.size === 0) return;
    this.#recheckDueMs = performance.now() + RECHECK_MS;
    await this.#check([...this.#clients]);
  }

  async #check(clients: readonly StreamClient[]): Promise<void> {
    try {
      const standing = await readCurrentRoles(
        this.#parts.database,
        clients.map(({ person }) => person),
        USER_SESSION_IDLE_SECONDS,
      );
      for (const client of clients) if (isEnded(client.person, standing(client.person))) this.#end(client);
    } catch {
      this.#recheckDueMs = performance.now() + EVERY_MS;
    }
  }

  #everySecond(): void {
    const nowMs = performance.now();
    for (const client of this.#clients) {
      if (client.person.via.kind === 'jwt' && nowMs - client.sinceMs >= JWT_STREAM_MS) this.#end(client);
      else if (!client.keepsUp(nowMs)) {
        this.#parts.onCut();
        client.cut();
      }
    }
    if (nowMs >= this.#recheckDueMs) void this.recheck();
  }

  #end(client: StreamClient): void {
    if (!this.#clients.has(client)) return;
    this.#forget(client);
    client.end();
  }

  #forget(client: StreamClient): void {
    if (!this.#clients.delete(client)) return;
    this.#newest.unwatch(client.webhookId);
    const watching = this.#watching.get(client.webhookId);
    watching?.delete(client);
    if (watching?.size === 0) this.#watching.delete(client.webhookId);
    if (this.#clients.size > 0) return;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#recheckDueMs = Number.POSITIVE_INFINITY;
  }
}

/**
 * The role of a JWT applies to its request and is not stored. A command on this machine has no user.
 * @param role current role; undefined: not active any more
 */
function isEnded({ via, role: admitted }: Person, role: Role | undefined): boolean {
  return via.kind !== 'local' && (role === undefined || (via.kind !== 'jwt' && role !== admitted));
}
