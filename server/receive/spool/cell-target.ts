/** Drains into the cells: the events of a file go where its name says. */
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { realDisk } from './disk.ts';
import { Drain } from './drain.ts';
import type { SegmentName } from './names.ts';
import { SpoolStore } from './store.ts';
import type { DrainObserver } from './store-rows.ts';

interface CellDrainParts {
  cells: Cells;
  folder: string;
  /** RETENTION_DAYS */
  retentionDays: () => number;
  observer: DrainObserver;
}

/** Where the events of a file are stored: those of a cell that was removed at home. */
export function cellOfFile(cells: Cells, { cell }: SegmentName): Cell {
  return cells.find(cell) ?? cells.numbered(0);
}

/** A drain of the files of one cell. The caller calls `close`, which closes the connections. */
export function drainOf(
  { cells, folder, retentionDays, observer }: CellDrainParts,
  cell: Cell,
): { drain: Drain; close: () => void } {
  /** The stores of this cell, and of those that have keys of its events. */
  const stores = new Map<Cell, SpoolStore>();
  const storeOf = (one: Cell): SpoolStore => {
    const known = stores.get(one);
    if (known !== undefined) return known;
    const store = new SpoolStore(one, retentionDays, (number, keys) => storeOf(cells.numbered(number)).claim(keys));
    stores.set(one, store);
    return store;
  };
  const takes = (file: SegmentName) => cellOfFile(cells, file) === cell;
  const drain = new Drain({ disk: realDisk, folder, takes, target: storeOf(cell), observer });
  const close = () => {
    for (const store of stores.values()) store.close();
  };
  return { drain, close };
}
