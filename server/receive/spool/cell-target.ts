/** Drains into the cells: each event goes where its id says. */
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { uuidText } from '../../store/ids.ts';
import { realDisk } from './disk.ts';
import { Drain } from './drain.ts';
import type { SegmentName } from './names.ts';
import { type Frame, idsOf, rowsAt } from './segment.ts';
import { addCounts, type DrainTarget, SpoolStore, type StoreResult } from './store.ts';
import type { DrainObserver } from './store-rows.ts';

interface CellDrainParts {
  cells: Cells;
  folder: string;
  /** RETENTION_DAYS */
  retentionDays: () => number;
  observer: DrainObserver;
}

/** Where the events of a file are stored: those of a cell that was removed at home, as `Cells.of` says. */
export function cellOfFile(cells: Cells, { cell }: SegmentName): Cell {
  return cells.find(cell) ?? cells.numbered(0);
}

/** A drain of the files of one cell. The caller closes the target. */
export function drainOf(
  { cells, folder, retentionDays, observer }: CellDrainParts,
  cell: Cell,
): { drain: Drain; target: CellTarget } {
  const target = new CellTarget(cells, cell, retentionDays);
  const takes = (file: SegmentName) => cellOfFile(cells, file) === cell;
  return { drain: new Drain({ disk: realDisk, folder, takes, target, observer }), target };
}

/**
 * A transaction in each cell: the files of a cell have events of this cell only, unless it was removed, or they are older than the cells. When
 * one fails, those before it are committed: the next attempt skips their events by their ids.
 */
export class CellTarget implements DrainTarget {
  readonly #cells: Cells;
  readonly #own: Cell;
  readonly #retentionDays: () => number;
  readonly #targets = new Map<Cell, SpoolStore>();

  constructor(cells: Cells, own: Cell, retentionDays: () => number) {
    this.#cells = cells;
    this.#own = own;
    this.#retentionDays = retentionDays;
  }

  connect(): Promise<void> {
    return this.#in(this.#own).connect();
  }

  async store(columns: readonly string[], rows: Frame): Promise<StoreResult> {
    const total = { kind: 'committed' as const, stored: 0, duplicates: 0, known: 0, webhookDeleted: 0 };
    for (const [target, part] of this.#split(columns, rows)) {
      const result = await target.store(columns, part);
      if (result.kind !== 'committed') return result;
      addCounts(total, result);
    }
    return total;
  }

  async createPartitions(columns: readonly string[], rows: Frame): Promise<void> {
    for (const [target, part] of this.#split(columns, rows)) await target.createPartitions(columns, part);
  }

  close(): void {
    for (const target of this.#targets.values()) target.close();
    this.#targets.clear();
  }

  #split(columns: readonly string[], rows: Frame): [DrainTarget, Frame][] {
    const indexesOf = new Map<Cell, number[]>();
    for (const [index, id] of idsOf(columns, rows).entries()) {
      const cell = this.#cells.of(uuidText(id));
      const known = indexesOf.get(cell);
      if (known === undefined) indexesOf.set(cell, [index]);
      else known.push(index);
    }
    if (indexesOf.size === 1) return [...indexesOf.keys()].map((cell) => [this.#in(cell), rows]);
    return [...indexesOf].map(([cell, indexes]) => [this.#in(cell), rowsAt(rows, indexes)]);
  }

  #in(cell: Cell): SpoolStore {
    const known = this.#targets.get(cell);
    if (known !== undefined) return known;
    const target = new SpoolStore(cell.conninfo, cell.tables, this.#retentionDays, {
      cell,
      claimIn: (number, keys) => this.#in(this.#cells.numbered(number)).claim(keys),
    });
    this.#targets.set(cell, target);
    return target;
  }
}
