/**
 * Stores events in the database, and in the spool while the database cannot commit them. This is the only place where that is decided.
 *
 * A commit with an unknown outcome is spooled as well, under the same ids, without a look-up: the drain skips events that are stored.
 * A full queue also counts as a failed commit, because the queue is the first to show that a database hangs.
 */
import type { SpoolWriter } from '../spool/writer.ts';
import type { CellStores } from './cell-stores.ts';
import type { Lane } from './copy-lane.ts';
import { type EventGroup, GroupCommit, type QueueLimits, type StoreOutcome } from './group-commit.ts';

/**
 * With a spool, a commit that takes longer counts as lost: senders such as GitHub give up after 10 s, and nothing is lost by spooling an
 * event that is committed after all.
 */
export const SPOOL_AFTER_MS = 3_000;

interface SpooledStoreParts {
  events: Pick<CellStores, 'store'>;
  writer: (cell: number) => SpoolWriter;
  limits: QueueLimits;
  /** Called with the number of events of each flush, after it. */
  onSpooled: (events: number) => void;
}

interface CellSpool {
  writer: SpoolWriter;
  commits: GroupCommit;
}

export class SpooledStore {
  readonly #parts: SpooledStoreParts;
  readonly #spools = new Map<number, CellSpool>();

  constructor(parts: SpooledStoreParts) {
    this.#parts = parts;
  }

  /** Like EventStore.store. A spooled event may turn out to be a duplicate later, when it is drained. */
  store(group: EventGroup): void {
    const { rows, cell } = group;
    const report = (outcome: StoreOutcome) => {
      if (outcome.kind === 'stored' || outcome.kind === 'refused') return group.report(outcome);
      this.#spool(cell).commits.add({
        rows,
        // If the spool refuses too, report why the commit failed: a full spool is not the cause.
        report: (spooled) => group.report(spooled.kind === 'stored' ? spooled : outcome),
      });
    };
    this.#parts.events.store({ rows, cell, report });
  }

  /** Events of one cell that wait for the spool, limited by QUEUE_EVENTS_MAX. */
  queuedIn(cell: number): number {
    return this.#spools.get(cell)?.commits.queued ?? 0;
  }

  /** Closes the files. Drain the queues first. */
  async close(): Promise<void> {
    await Promise.all([...this.#spools.values()].map(({ writer }) => writer.close()));
  }

  #spool(cell: number): CellSpool {
    const known = this.#spools.get(cell);
    if (known !== undefined) return known;
    const { writer: open, limits, onSpooled } = this.#parts;
    const writer = open(cell);
    // One flush is one commit.
    const lane: Lane = {
      up: true,
      commit: async (rows) =>
        (await writer.append(rows)) === null ? { kind: 'committed' } : { kind: 'lost', lookUp: null },
    };
    const observer = { committed: onSpooled, repeated() {}, inDoubt() {}, refused() {} };
    const spool = { writer, commits: new GroupCommit([lane], limits, observer) };
    this.#spools.set(cell, spool);
    return spool;
  }
}
