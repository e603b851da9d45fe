/**
 * Wakes waiting claims. One query finds which of their agents have deliveries to claim. It runs after each notified commit, and
 * at least once a second: a lost notification, an expired lease or the end of a nack's delay costs at most one second. An agent that had
 * work after the last commit is not asked for: its claim looks.
 */

import { randomUUID } from 'node:crypto';
import { ARRIVALS_CHANNEL } from '../../store/listen.ts';
import type { Database } from '../../store/pool.ts';
import { agentsWithWork } from '../../store/queries/claim-room.ts';
import type { ClaimMarks } from './watermarks.ts';

const CHECK_EVERY_MS = 1_000;
/** Minimum time between two queries, whatever the number of commits. */
const CHECK_GAP_MS = 5;
/** Interval of queries that ignore the watermarks, for deliveries before an agent's watermark; see watermarks.ts. */
const FULL_SCAN_EVERY_MS = 15_000;

export class ClaimWaiters {
  readonly #database: Database;
  readonly #marks: Pick<ClaimMarks, 'forCheck' | 'forget'>;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Agents that had work after the last commit: the next one wakes their claims without a query, until one finds nothing. */
  readonly #busy = new Set<string>();
  #cancelCheck = () => {};
  #dueAtMs = Number.POSITIVE_INFINITY;
  #lastMs = 0;
  #fullScanMs = 0;
  #checking = false;
  #closed = false;
  #commits = 0;
  /** `#commits` at the last check. */
  #commitsChecked = 0;

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
    if (inVain) this.#busy.delete(agentId);
    return new Promise((resolve) => {
      const wakes = this.#waiting.get(agentId) ?? new Set();
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
      if (this.#commits === commitsBefore) this.#checkWithin(CHECK_EVERY_MS);
      else this.#checkSoon();
    });
  }

  /** Reports a commit, of this process or another. */
  committed(): void {
    this.#commits++;
    if (this.#waiting.size > 0) this.#checkSoon();
  }

  /** Wakes all waiting claims. Later calls of `wait` resolve immediately. */
  close(): void {
    this.#closed = true;
    this.#cancelCheck();
    for (const agentId of [...this.#waiting.keys()]) this.#wake(agentId);
  }

  #checkSoon(): void {
    this.#checkWithin(Math.max(0, this.#lastMs + CHECK_GAP_MS - performance.now()));
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
    if (this.#checking) return this.#checkWithin(CHECK_GAP_MS);
    this.#checking = true;
    this.#lastMs = performance.now();
    const isFullScan = this.#lastMs >= this.#fullScanMs + FULL_SCAN_EVERY_MS;
    if (isFullScan) this.#fullScanMs = this.#lastMs;
    const isAfterCommit = this.#commits !== this.#commitsChecked;
    this.#commitsChecked = this.#commits;
    if (isAfterCommit && !isFullScan) for (const agentId of this.#busy) this.#wake(agentId);
    const agents = [...this.#waiting.keys()].map((id) => ({
      id,
      claimableFrom: isFullScan ? '-infinity' : this.#marks.forCheck(id),
    }));
    // If the database is unavailable, the query runs again in a second. The claims keep waiting until their own timeout.
    const ready = agents.length === 0 ? [] : await agentsWithWork(this.#database, agents).catch(() => []);
    this.#checking = false;
    for (const agentId of ready) {
      if (isFullScan) this.#marks.forget(agentId);
      if (isAfterCommit) this.#busy.add(agentId);
      this.#wake(agentId);
    }
    if (this.#waiting.size > 0) this.#checkWithin(CHECK_EVERY_MS);
  }

  #wake(agentId: string): void {
    for (const wake of [...(this.#waiting.get(agentId) ?? [])]) wake();
  }
}

/** Minimum time between two NOTIFYs. */
const NOTIFY_GAP_MS = 10;

/** Notifies waiting claims of commits: directly in this process, and in other processes by a NOTIFY outside the commit. */
export class CommitNotifier {
  /** Names this process to the others. */
  readonly #name = randomUUID();
  readonly #database: Database;
  readonly #waiters: ClaimWaiters;
  readonly #isWanted: () => boolean;
  #scheduled = false;
  #lastMs = 0;

  /** @param isWanted false while there are no agents. */
  constructor(database: Database, waiters: ClaimWaiters, isWanted: () => boolean) {
    this.#database = database;
    this.#waiters = waiters;
    this.#isWanted = isWanted;
  }

  /** Reports a commit. The first commit after a pause is notified immediately; the following ones share a NOTIFY. */
  committed(): void {
    if (!this.#isWanted()) return;
    this.#waiters.committed();
    if (this.#scheduled) return;
    this.#scheduled = true;
    after(Math.max(0, this.#lastMs + NOTIFY_GAP_MS - performance.now()), () => this.#notify());
  }

  /** A process has notified the others of its commits. @param by its name: of this process's own, the claims here know already */
  arrived(by: string): void {
    if (by !== this.#name) this.#waiters.committed();
  }

  #notify(): void {
    this.#scheduled = false;
    this.#lastMs = performance.now();
    // A lost NOTIFY delays claims by at most a second, because waiting claims query once a second anyway. So its commit need not wait for
    // the disk or a standby.
    const text = `select set_config('synchronous_commit', 'off', true), pg_notify('${ARRIVALS_CHANNEL}', '${this.#name}')`;
    this.#database.query({ text }).catch(() => {});
  }
}

/** Runs `work` in `ms` milliseconds; for 0 after this turn, because a timer takes a millisecond. Returns what cancels it. */
function after(ms: number, work: () => void): () => void {
  if (ms === 0) {
    const immediate = setImmediate(work);
    return () => clearImmediate(immediate);
  }
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
}
