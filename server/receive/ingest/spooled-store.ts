/**
 * Stores events in the database, and in the spool while the database cannot commit them. This is the only place where that is decided.
 *
 * A commit with an unknown outcome is spooled as well, under the same ids, without a look-up: the drain skips events that are stored.
 * A full queue also counts as a failed commit, because the queue is the first to show that a database hangs.
 */
import type { EventRow } from '../../store/copy-rows.ts';
import type { SpoolWriter } from '../spool/writer.ts';
import type { CellStores } from './cell-stores.ts';
import type { QueueLimits } from './commit-queue.ts';
import type { EventGroup } from './event-store.ts';
import { type CommitOutcome, GroupCommit, type Lane, type StoreOutcome } from './group-commit.ts';

/**
 * With a spool, a commit that takes longer counts as lost: senders such as GitHub give up after 10 s, and nothing is lost by spooling an
 * event that is committed after all.
 */
export const SPOOL_AFTER_MS = 3_000;

export class SpooledStore {
  readonly #events: Pick<CellStores, 'store'>;
  readonly #spool: GroupCommit<EventRow>;

  /** @param onSpooled called with the number of events of each flush, after it. */
  constructor(
    events: Pick<CellStores, 'store'>,
    writer: SpoolWriter,
    limits: QueueLimits,
    onSpooled: (events: number) => void,
  ) {
    this.#events = events;
    this.#spool = new GroupCommit([new SpoolLane(writer)], limits, {
      committed: onSpooled,
      repeated() {},
      inDoubt() {},
      refused() {},
    });
  }

  /** Like EventStore.store. A spooled event may turn out to be a duplicate later, when it is drained. */
  store(group: EventGroup): void {
    const { rows, cell } = group;
    const settle = (outcome: StoreOutcome) => {
      if (outcome.kind === 'stored' || outcome.kind === 'refused') return group.settle(outcome);
      this.#spool.add({
        rows,
        // Report the failure of the commit: the full spool is not its cause.
        settle: (spooled) => group.settle(spooled.kind === 'stored' ? spooled : outcome),
      });
    };
    this.#events.store({ rows, cell, settle });
  }

  /** Events waiting for a flush. */
  get queued(): number {
    return this.#spool.queued;
  }
}

/** One flush is one commit. */
class SpoolLane implements Lane<EventRow> {
  readonly up = true;
  readonly #writer: SpoolWriter;

  constructor(writer: SpoolWriter) {
    this.#writer = writer;
  }

  begin(): void {}

  async commit(rows: readonly EventRow[]): Promise<CommitOutcome> {
    const refusal = await this.#writer.append(rows);
    return refusal === null ? { kind: 'committed' } : { kind: 'lost', lookUp: null };
  }
}
