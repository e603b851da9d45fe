/**
 * Wakes waiting claims. A commit wakes those of the agents that are subscribed to its webhooks. Once a second a query looks for all agents
 * that wait: a lost notification, an expired lease or the end of a nack's delay costs at most one second.
 *
 * A claim joins before its first round, so that what is committed during a round ends the wait that follows.
 */
import type { Database } from '../../store/connect/pool.ts';
import type { ActiveAgent } from '../../store/queries/agents/active-agents.ts';
import { readSubscribers } from '../../store/queries/agents/subscriptions.ts';
import { agentsWithWork } from '../../store/queries/claims/room.ts';
import type { ClaimMarks } from './marks.ts';

const LOOK_EVERY_MS = 1_000;
/** Minimum time between two wakings, so that a claim takes the events of several commits. */
const GAP_MS = 5;
/** What each waiting agent adds to the gap before a look at all agents. */
const GAP_MS_PER_AGENT = 0.03;
/** Maximum ids between two wakings. With more of them, a query looks for all agents that wait. */
const CONCERNED_MAX = 1_000;

/** A claim among those that may wait. */
interface WaitingClaim {
  /**
   * Resolves when the agent may have deliveries to claim since the last call, or since it joined; or after `timeoutMs`, or when the caller
   * ends the wait.
   * @param giveUp gets the callback that ends the wait
   */
  wait(timeoutMs: number, giveUp: (end: () => void) => void): Promise<void>;
  leave(): void;
}

interface ClaimsOfAgent {
  /** The agent has `max_leased`, or is paused: its claims are woken only after a query has shown that it may claim. */
  isLimited: boolean;
  /** Each is called when its claim is woken. */
  readonly wakes: Set<() => void>;
}

/** The waiting claims of a process. */
export class WaitingClaims {
  readonly #database: Database;
  readonly #marks: Pick<ClaimMarks, 'oldestFrom'>;
  readonly #agents = new Map<string, ClaimsOfAgent>();
  #size = 0;
  /** Webhooks with new deliveries, and agents that have room again. */
  readonly #concerned = new IdBatch(GAP_MS, CONCERNED_MAX, (ids) =>
    ids === null ? this.concernsAll() : this.#wakeConcerned(ids),
  );
  /** Agents by webhook, read since the last look at all agents. A subscription that is created later takes effect with the next look. */
  readonly #subscribers = new Map<string, string[]>();
  /** Agents with `max_leased`, and paused ones, that are concerned. */
  readonly #asked = new Set<string>();
  #isAsking = false;
  #lookTimer: NodeJS.Timeout | undefined;
  #lookAtMs = Number.POSITIVE_INFINITY;
  #isLooking = false;
  /** The database did not answer the last query: events that are spooled wake no claims. */
  #isAway = false;
  #closed = false;

  constructor(database: Database, marks: Pick<ClaimMarks, 'oldestFrom'>) {
    this.#database = database;
    this.#marks = marks;
  }

  /** Number of waiting claims. */
  get size(): number {
    return this.#size;
  }

  join({ id, maxLeased, paused }: Pick<ActiveAgent, 'id' | 'maxLeased' | 'paused'>): WaitingClaim {
    const claims = this.#agents.get(id) ?? { isLimited: false, wakes: new Set() };
    claims.isLimited ||= maxLeased !== null || paused;
    this.#agents.set(id, claims);
    let isWoken = false;
    let end: (() => void) | null = null;
    const wake = () => {
      isWoken = true;
      end?.();
    };
    claims.wakes.add(wake);
    return {
      wait: async (timeoutMs, giveUp) => {
        if (!isWoken && !this.#closed) {
          this.#size++;
          this.#lookWithin(LOOK_EVERY_MS);
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, timeoutMs);
            end = () => {
              clearTimeout(timer);
              resolve();
            };
            giveUp(end);
          });
          this.#size--;
        }
        end = null;
        isWoken = false;
      },
      leave: () => {
        claims.wakes.delete(wake);
        if (claims.wakes.size === 0 && this.#agents.get(id) === claims) this.#agents.delete(id);
      },
    };
  }

  /** Events of this webhook were stored, or this agent may claim again (room below `max_leased`, a freed key), by this process or another. */
  concerns(id: string): void {
    if (this.#agents.size > 0 && !this.#isAway) this.#concerned.add(id);
  }

  /** Any agent may have work. */
  concernsAll(): void {
    if (this.#agents.size > 0) this.#lookWithin(GAP_MS + GAP_MS_PER_AGENT * this.#agents.size);
  }

  /** Wakes all waiting claims. Later waits resolve immediately. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#lookTimer);
    for (const agentId of [...this.#agents.keys()]) this.#wake(agentId);
  }

  #wakeConcerned(ids: readonly string[]): void {
    const unknown = ids.filter((id) => !this.#agents.has(id) && !this.#subscribers.has(id));
    this.#wakeAgents(ids);
    if (unknown.length > 0) void this.#readSubscribers(unknown);
  }

  /**
   * Reads the subscribers of webhooks and wakes them. A commit during the read needs no waking of its own, since this one follows it. If
   * the database is unavailable, the next look finds what was missed.
   */
  async #readSubscribers(webhookIds: readonly string[]): Promise<void> {
    for (const id of webhookIds) this.#subscribers.set(id, []);
    const read = await readSubscribers(this.#database, webhookIds).catch(() => []);
    for (const { webhookId, agentId } of read) this.#subscribers.get(webhookId)?.push(agentId);
    this.#wakeAgents(read.map(({ agentId }) => agentId));
  }

  /** @param ids of agents, and of webhooks whose subscribers are known */
  #wakeAgents(ids: readonly string[]): void {
    for (const agentId of new Set(ids.flatMap((id) => this.#subscribers.get(id) ?? [id])))
      if (this.#agents.get(agentId)?.isLimited) this.#asked.add(agentId);
      else this.#wake(agentId);
    if (this.#asked.size > 0 && !this.#isAsking) void this.#ask();
  }

  /** Wakes those of the `#asked` agents that have work and room. One query at a time. */
  async #ask(): Promise<void> {
    this.#isAsking = true;
    while (this.#asked.size > 0) {
      const ids = [...this.#asked];
      this.#asked.clear();
      await this.#wakeThoseWithWork(ids);
    }
    this.#isAsking = false;
  }

  /** Wakes the agents that have work and room. If the database is unavailable, the claims keep waiting until their own timeout. */
  async #wakeThoseWithWork(agentIds: readonly string[]): Promise<void> {
    const asked = agentIds.map((id) => ({ id, claimableFrom: this.#marks.oldestFrom(id) }));
    const ready = await agentsWithWork(this.#database, asked).catch(() => null);
    this.#isAway = ready === null;
    for (const id of ready ?? []) this.#wake(id);
  }

  /** Schedules a look at all agents after `ms`, unless one is scheduled earlier. */
  #lookWithin(ms: number): void {
    const atMs = performance.now() + ms;
    if (this.#closed || atMs >= this.#lookAtMs) return;
    clearTimeout(this.#lookTimer);
    this.#lookAtMs = atMs;
    this.#lookTimer = setTimeout(() => void this.#look(), ms);
  }

  async #look(): Promise<void> {
    this.#lookAtMs = Number.POSITIVE_INFINITY;
    if (this.#isLooking) return this.#lookWithin(GAP_MS);
    this.#subscribers.clear();
    if (this.#size === 0) return;
    this.#isLooking = true;
    await this.#wakeThoseWithWork([...this.#agents.keys()]);
    this.#isLooking = false;
    this.#lookWithin(LOOK_EVERY_MS);
  }

  #wake(agentId: string): void {
    for (const wake of [...(this.#agents.get(agentId)?.wakes ?? [])]) wake();
  }
}

/** Gathers ids and passes them in batches. The first id after a pause is passed in the next turn, the following ones after the gap. */
export class IdBatch {
  readonly #gapMs: number;
  readonly #idsMax: number;
  readonly #pass: (ids: readonly string[] | null) => void;
  readonly #ids = new Set<string>();
  #isScheduled = false;
  #lastMs = 0;

  /** @param pass is called with the ids, or with null when there are more than `idsMax` */
  constructor(gapMs: number, idsMax: number, pass: (ids: readonly string[] | null) => void) {
    this.#gapMs = gapMs;
    this.#idsMax = idsMax;
    this.#pass = pass;
  }

  add(id: string): void {
    if (this.#ids.size <= this.#idsMax) this.#ids.add(id);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const ms = this.#lastMs + this.#gapMs - performance.now();
    // A timer takes a millisecond at least.
    if (ms <= 0) setImmediate(() => this.#run());
    else setTimeout(() => this.#run(), ms);
  }

  #run(): void {
    this.#isScheduled = false;
    this.#lastMs = performance.now();
    const ids = this.#ids.size > this.#idsMax ? null : [...this.#ids];
    this.#ids.clear();
    this.#pass(ids);
  }
}
