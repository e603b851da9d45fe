/** Stores the events of verified requests, keyed or not. Requests without deduplication keys use COPY, the others a statement. */
import { COPY_CONNECTIONS, CopyLink } from '../../store/copy/link.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import type { KeyedRow } from '../../store/queries/events/store-deduped.ts';
import { CopyLane, KeyedLane, type LaneOptions } from './commit-lanes.ts';
import type { QueuedGroup, QueueLimits } from './commit-queue.ts';
import { type CommitObserver, GroupCommit, type StoreOutcome } from './group-commit.ts';

/**
 * The events of one request: either each has its own deduplication key, or none has a key. `settle` is called once: after their commit,
 * or with the reason why they were not stored.
 */
export type EventGroup = QueuedGroup<EventRow, StoreOutcome> & {
  /** The cell of its webhook. */
  readonly cell: number;
};

export interface StoreObserver extends CommitObserver {
  /** Commits became possible or impossible. `reason` is the text from libpq. */
  connection(up: boolean, reason: string): void;
}

interface StoreOptions extends QueueLimits, LaneOptions {
  /** Connection string of the COPY connections. */
  conninfo: string;
  observer: StoreObserver;
}

export class EventStore {
  readonly #links: readonly CopyLink[];
  readonly #unkeyed: GroupCommit<EventRow>;
  readonly #keyed: GroupCommit<KeyedRow>;

  constructor(options: StoreOptions) {
    const { conninfo, observer, spools = false } = options;
    let reportedUp: boolean | null = null;
    const onLinkChanged = (reason: string) => {
      if (this.available === reportedUp) return;
      reportedUp = this.available;
      observer.connection(reportedUp, reason);
      // Without this, events with keys would wait for the statement in progress.
      if (spools && !reportedUp) this.#keyed.clear();
    };
    this.#links = Array.from({ length: COPY_CONNECTIONS }, () => new CopyLink(conninfo, onLinkChanged));
    const copies = this.#links.map((link) => new CopyLane(link, options));
    this.#unkeyed = new GroupCommit(copies, options, observer);
    const statement = new KeyedLane(options, () => this.available);
    this.#keyed = new GroupCommit([statement], options, observer);
  }

  /** Connects; retries until it succeeds or `close` is called. Before that, `store` settles with `unavailable`. */
  async start(): Promise<void> {
    await Promise.all(this.#links.map((link) => link.start()));
  }

  /**
   * Stores the events of a request in one commit, all or none, and settles the group. An event whose key exists is not stored again: of
   * any number of events with one key, in any number of processes, exactly one is stored.
   */
  store(group: QueuedGroup<EventRow, StoreOutcome>): void {
    if (group.rows[0]!.key === null) this.#unkeyed.add(group);
    else this.#keyed.add(group as QueuedGroup<KeyedRow, StoreOutcome>);
  }

  /** Events waiting for a commit. */
  get queued(): number {
    return this.#unkeyed.queued + this.#keyed.queued;
  }

  /** Events in the longer queue; each is limited by QUEUE_EVENTS_MAX. */
  get longestQueue(): number {
    return Math.max(this.#unkeyed.queued, this.#keyed.queued);
  }

  /** False while no COPY connection is up. Connections reconnect automatically. */
  get available(): boolean {
    return this.#links.some(({ up }) => up);
  }

  /** Closes the connections and settles waiting events with `unavailable`. Drain first. */
  close(): void {
    for (const link of this.#links) link.close();
    this.#unkeyed.clear();
    this.#keyed.clear();
  }
}
