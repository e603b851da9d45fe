/**
 * Wakes waiting claims. A query finds which of the agents that a notified commit concerns have deliveries to claim; a commit that concerns none of
 * them needs no query. A query for all agents runs once a second: a lost notification, an expired lease or the end of a nack's delay costs at
 * most one second. If one agent alone had work after the last two commits, the next one wakes its claims without a query.
 */

import type { Database } from '../../store/connect/pool.ts';
import { readSubscribers } from '../../store/queries/agents/subscriptions.ts';
import { agentsWithWork } from '../../store/queries/claims/room.ts';
import type { ClaimMarks } from './claim-marks.ts';

const CHECK_EVERY_MS = 1_000;
/** Minimum time between two queries, whatever the number of commits, and what each agent adds to it for a query for all agents. */
const CHECK_GAP_MS = 5;
const GAP_MS_PER_AGENT = 0.03;
/** Webhooks and agents of one query; for more, all agents are checked. */
const CONCERNED_MAX = 1_000;
/** Interval of queries that ignore the watermarks, for deliveries before an agent's watermark; see watermarks.ts. */
const FULL_SCAN_EVERY_MS = 15_000;

export class ClaimWaiters {
  readonly #database: Database;
  readonly #marks: Pick<ClaimMarks, 'forCheck' | 'forget'>;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** The only agent that had work after the last commit, as a query found; null: none or several had, or a claim was woken in vain. */
  #onlyReady: string | null = null;
  /** The agent whose claims the next commit wakes without a query. */
  #busy: string | null = null;
  #cancelCheck = () => {};
  #dueAtMs = Number.POSITIVE_INFINITY;
  #lastMs = 0;
  #fullScanMs = 0;
  /** Queries under way: for all agents, and for those that commits concern. */
  readonly #checking = { all: false, some: false };
  #closed = false;
  #commits = 0;
  /** `#commits` at the last check. */
  #commitsChecked = 0;
  /** When all agents are checked, whatever was notified. */
  #allDueMs = 0;
  /** A commit was notified without what it concerns. */
  #concernsAll = false;
  /** Webhooks of notified commits, and agents: those that have room again, or whose claims overlapped with a commit. */
  #concerned = new Set<string>();
  /** Subscribers of webhooks, as read since the last check of all agents: a subscription that is made later waits for the next one. */
  #subscribers = new Map<string, string[]>();

  constructor(database: Database, marks: Pick<ClaimMarks, 'forCheck' | 'forget'>) {
    this.#database = database;
    this.#marks = marks;
  }

  /** Number of waiting claims. */
  get size(): number {
    let size = 0;
    for (const wakes of this.#waiting.values()) size += wakes.size;
    return size;
  }

  /** Number of notified commits. A claim reads it before its query, so that a commit between query and wait is not missed. */
  get commits(): number {
    return this.#commits;
  }

  /**
   * Resolves when the agent may have deliveries to claim, after `timeoutMs`, or when the caller ends the wait.
   * @param commitsBefore `commits` from before the claim's query
   * @param inVain the claim was woken before, and found nothing
   * @param giveUp gets the callback that ends the wait
   */
  wait(
    agentId: string,
    { timeoutMs, commitsBefore, inVain }: { timeoutMs: number; commitsBefore: number; inVain: boolean },
    giveUp: (wake: () => void) => void,
  ): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (inVain) this.#found([]);
    return new Promise((resolve) => {
      const wakes = this.#waiting.get(agentId) ?? new Set();
      if (this.#waiting.size === 0) this.#allDueMs = performance.now() + CHECK_EVERY_MS;
      this.#waiting.set(agentId, wakes);
      const timer = setTimeout(() => wake(), timeoutMs);
      const wake = () => {
        clearTimeout(timer);
        wakes.delete(wake);
        if (wakes.size === 0 && this.#waiting.get(agentId) === wakes) this.#waiting.delete(agentId);
        resolve();
      };
      wakes.add(wake);
      giveUp(wake);
      if (this.#commits === commitsBefore) return this.#checkWithin(CHECK_EVERY_MS);
      this.#concerned.add(agentId);
      this.#checkSoon();
    });
  }

  /**
   * Events of this webhook were stored, or this agent at its limit has room again, by this process or another: `committed` is called in the same
   * turn.
   */
  concerns(id: string): void {
    if (this.#waiting.size === 0) return;
    if (this.#concerned.size < CONCERNED_MAX) this.#concerned.add(id);
    else this.#concernsAll ||= !this.#concerned.has(id);
  }

  /** Reports a commit, of this process or another. @param concernsAll false: `concerns` has what it concerns */
  committed(concernsAll = true): void {
    this.#commits++;
    if (this.#waiting.size === 0) return;
    this.#concernsAll ||= concernsAll;
    if (!this.#wakeBusy() || this.#waiting.size > 0) this.#checkSoon();
  }

  /** Wakes all waiting claims. Later calls of `wait` resolve immediately. */
  close(): void {
    this.#closed = true;
    this.#cancelCheck();
    for (const agentId of [...this.#waiting.keys()]) this.#wake(agentId);
  }

  /**
   * Wakes the claims of the busy agent before the answers to the senders are written, unless a check was a moment ago. True: they were
   * woken. If no others wait, no check is needed.
   */
  #wakeBusy(): boolean {
    const nowMs = performance.now();
    if (this.#busy === null || !this.#waiting.has(this.#busy) || nowMs < this.#lastMs + CHECK_GAP_MS) return false;
    this.#wake(this.#busy);
    if (this.#waiting.size > 0) return true;
    this.#lastMs = nowMs;
    this.#commitsChecked = this.#commits;
    this.#concernsAll = false;
    return true;
  }

  #checkSoon(): void {
    const gapMs = CHECK_GAP_MS + (this.#concernsAll ? GAP_MS_PER_AGENT * this.#waiting.size : 0);
    this.#checkWithin(Math.max(0, this.#lastMs + gapMs - performance.now()));
  }

  /** One check for all claims. A call can only make it run earlier. */
  #checkWithin(ms: number): void {
    const dueAtMs = performance.now() + ms;
    if (this.#closed || dueAtMs >= this.#dueAtMs) return;
    this.#cancelCheck();
    this.#dueAtMs = dueAtMs;
    this.#cancelCheck = after(ms, () => void this.#check());
  }

  async #check(): Promise<void> {
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    const wantsAll = this.#concernsAll || performance.now() >= this.#allDueMs;
    // A query for many agents takes long, so those of commits go on beside it.
    const checksAll = wantsAll && !this.#checking.all;
    const kind = checksAll ? 'all' : 'some';
    if (this.#checking[kind]) return this.#checkWithin(CHECK_GAP_MS);
    this.#checking[kind] = true;
    this.#lastMs = performance.now();
    if (checksAll) this.#allDueMs = Number.POSITIVE_INFINITY;
    const isFullScan = checksAll && this.#lastMs >= this.#fullScanMs + FULL_SCAN_EVERY_MS;
    if (isFullScan) this.#fullScanMs = this.#lastMs;
    const isAfterCommit = this.#commits !== this.#commitsChecked;
    this.#commitsChecked = this.#commits;
    if (isAfterCommit && !isFullScan && this.#busy !== null) this.#wake(this.#busy);
    // If the database is unavailable, the query runs again in a second. The claims keep waiting until their own timeout.
    const ready = await this.#withWork(checksAll, isFullScan).catch(() => null);
    this.#checking[kind] = false;
    if (checksAll) this.#allDueMs = performance.now() + CHECK_EVERY_MS;
    if (isAfterCommit && ready !== null) this.#found(ready);
    for (const agentId of ready ?? []) {
      if (isFullScan) this.#marks.forget(agentId);
      this.#wake(agentId);
    }
    if (this.#waiting.size === 0) return;
    if (this.#concernsAll) this.#checkSoon();
    else this.#checkWithin(Math.max(0, this.#allDueMs - performance.now()));
  }

  /** @param ready agents that had work after a commit */
  #found(ready: readonly string[]): void {
    const only = ready.length === 1 ? ready[0]! : null;
    this.#busy = only === this.#onlyReady ? only : null;
    this.#onlyReady = only;
  }

  /**
   * The waiting agents that may have deliveries to claim, of all or of those that the notified commits concern; null: the claims of the only one
   * that had work do not wait, so it was not asked for.
   */
  async #withWork(checksAll: boolean, isFullScan: boolean): Promise<string[] | null> {
    const concerned = this.#concerned;
    this.#concerned = new Set();
    if (checksAll) {
      this.#concernsAll = false;
      this.#subscribers = new Map();
    }
    const asked = checksAll ? [...this.#waiting.keys()] : await this.#concernedBy(concerned);
    const waiting = asked.filter((id) => this.#waiting.has(id));
    if (waiting.length === 0) return checksAll || asked.includes(this.#onlyReady!) ? null : [];
    return agentsWithWork(
      this.#database,
      waiting.map((id) => ({ id, claimableFrom: isFullScan ? '-infinity' : this.#marks.forCheck(id) })),
    );
  }

  /** The waiting agents among these ids, and the subscribers of the others. */
  async #concernedBy(ids: ReadonlySet<string>): Promise<string[]> {
    const subscribers = this.#subscribers;
    const webhooks = [...ids].filter((id) => !this.#waiting.has(id));
    const unknown = webhooks.filter((id) => !subscribers.has(id));
    if (unknown.length > 0) {
      const read = await readSubscribers(this.#database, unknown);
      for (const id of unknown) subscribers.set(id, []);
      for (const { webhookId, agentId } of read) subscribers.get(webhookId)!.push(agentId);
    }
    return [...new Set([...ids, ...webhooks.flatMap((id) => subscribers.get(id)!)])];
  }

  #wake(agentId: string): void {
    for (const wake of [...(this.#waiting.get(agentId) ?? [])]) wake();
  }
}

/** Runs `work` in `ms` milliseconds; for 0 after this turn, because a timer takes a millisecond. Returns what cancels it. */
export function after(ms: number, work: () => void): () => void {
  if (ms === 0) {
    const immediate = setImmediate(work);
    return () => clearImmediate(immediate);
  }
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
}
