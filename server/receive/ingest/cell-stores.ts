/** Stores each event in the cell of its webhook. Each cell has its own connections and queues, opened at its first event. */
import { within } from '../../base/time/every.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { COPY_CONNECTIONS } from '../../store/copy/connection.ts';
import { CopyLane, type CopyOptions } from './copy-lane.ts';
import {
  type CommitObserver,
  type EventGroup,
  GroupCommit,
  notStoredNow,
  type QueuedGroup,
  type QueueLimits,
} from './group-commit.ts';
import { KeyedLane, type KeyedOptions } from './keyed-lane.ts';

export interface StoreObserver extends CommitObserver {
  /** Called when commits become possible or impossible. `reason` is the text from libpq. */
  connection(up: boolean, reason: string): void;
}

interface StoreOptions extends QueueLimits, CopyOptions, KeyedOptions {
  observer: StoreObserver;
}

/** Stores events in one database: those with deduplication keys by a statement, the others by COPY. */
export class EventStore {
  readonly #copies: readonly CopyLane[];
  readonly #unkeyed: GroupCommit;
  readonly #keyed: GroupCommit;

  constructor(options: StoreOptions) {
    const { observer, spools = false } = options;
    let reportedUp: boolean | null = null;
    const onChange = (reason: string) => {
      if (this.available === reportedUp) return;
      reportedUp = this.available;
      observer.connection(reportedUp, reason);
      // Without this, events with keys would wait for the statement in progress.
      if (spools && !reportedUp) this.#keyed.clear();
    };
    this.#copies = Array.from({ length: COPY_CONNECTIONS }, () => new CopyLane(options, onChange));
    this.#unkeyed = new GroupCommit(this.#copies, options, observer);
    this.#keyed = new GroupCommit([new KeyedLane(options, () => this.available)], options, observer);
  }

  /** Connects; retries until it succeeds or `close` is called. Before that, `store` reports `unavailable`. */
  async start(): Promise<void> {
    await Promise.all(this.#copies.map((lane) => lane.start()));
  }

  /**
   * Stores the events of a request in one commit, all or none, and reports to the group. An event whose key exists is not stored again: of
   * any number of events with one key, in any number of processes, exactly one is stored.
   */
  store(group: QueuedGroup): void {
    (group.rows[0]!.key === null ? this.#unkeyed : this.#keyed).add(group);
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
    return this.#copies.some(({ up }) => up);
  }

  /** Closes the connections and reports `unavailable` for waiting events. Drain first. */
  close(): void {
    for (const lane of this.#copies) lane.close();
    this.#unkeyed.clear();
    this.#keyed.clear();
  }
}

/** The first events of a cell wait this long for its connections. */
const CONNECT_MS = 2_000;

interface Opened {
  store: EventStore;
  /** The attempt to connect; null: connected, or CONNECT_MS is over. */
  opening: Promise<void> | null;
}

export class CellStores {
  readonly #cells: Pick<Cells, 'find'>;
  readonly #open: (cell: Cell) => EventStore;
  readonly #home: EventStore;
  readonly #others = new Map<Cell, Opened>();

  /** @param open creates the store of a cell, not yet connected */
  constructor(cells: Pick<Cells, 'find'>, open: (cell: Cell) => EventStore) {
    this.#cells = cells;
    this.#open = open;
    this.#home = open(cells.find(0)!);
  }

  /** See EventStore.store. Reports `unavailable` for a cell that is away or not known yet. */
  store(group: EventGroup): void {
    if (group.cell === 0) return this.#home.store(group);
    const cell = this.#cells.find(group.cell);
    if (cell === undefined || cell.away !== null) return group.report(notStoredNow);
    const { store, opening } = this.#others.get(cell) ?? this.#connect(cell);
    if (opening === null) store.store(group);
    else void opening.then(() => store.store(group));
  }

  /** Connects to the home cell, see EventStore.start. */
  start(): Promise<void> {
    return this.#home.start();
  }

  /** For each open cell: its number, the events that wait for a commit, and the events in its longer queue. */
  queues(): { cell: number; queued: number; longest: number }[] {
    const figures = (cell: number, { queued, longestQueue: longest }: EventStore) => ({ cell, queued, longest });
    return [figures(0, this.#home), ...[...this.#others].map(([{ number }, { store }]) => figures(number, store))];
  }

  /** Whether events of the home cell can be committed. */
  get available(): boolean {
    return this.#home.available;
  }

  /** Whether events of another cell can be committed. Only cells that have had an event are open, and count. */
  get othersAvailable(): boolean {
    return [...this.#others].some(([cell, { store }]) => cell.away === null && store.available);
  }

  /** Closes the stores of cells that were removed or whose connection string has changed. */
  forget(): void {
    for (const [cell, { store }] of this.#others) {
      if (this.#cells.find(cell.number) === cell) continue;
      this.#others.delete(cell);
      store.close();
    }
  }

  close(): void {
    this.#home.close();
    for (const { store } of this.#others.values()) store.close();
  }

  #connect(cell: Cell): Opened {
    // Citus may have moved the cell: its earlier store has connections to another node.
    this.forget();
    const store = this.#open(cell);
    const opened: Opened = { store, opening: null };
    opened.opening = within(CONNECT_MS, store.start()).then(() => {
      opened.opening = null;
    });
    this.#others.set(cell, opened);
    return opened;
  }
}
