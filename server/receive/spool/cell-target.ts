/** Drains into the cells: each event goes where its id says. */
import { uuidText } from '../../store/ids.ts';
import { type Frame, idsOf, rowsAt } from './segment.ts';
import type { DrainTarget, StoreResult } from './store.ts';

interface CellTargetParts<Cell> {
  /** The cell of an event. Throws when it is not known. */
  cellOf: (id: string) => Cell;
  open: (cell: Cell) => DrainTarget;
}

/**
 * A transaction in each cell. When one fails, those before it are committed: the next attempt skips their events by their ids.
 */
export class CellTarget<Cell extends { number: number }> implements DrainTarget {
  readonly #parts: CellTargetParts<Cell>;
  readonly #targets = new Map<Cell, DrainTarget>();

  constructor(parts: CellTargetParts<Cell>) {
    this.#parts = parts;
  }

  /** The cells connect when they get events. */
  async connect(): Promise<void> {}

  async store(columns: readonly string[], rows: Frame): Promise<StoreResult> {
    const total = { kind: 'committed' as const, stored: 0, duplicates: 0, known: 0, webhookDeleted: 0 };
    for (const [target, part] of this.#split(columns, rows)) {
      const result = await target.store(columns, part);
      if (result.kind !== 'committed') return result;
      for (const name of ['stored', 'duplicates', 'known', 'webhookDeleted'] as const) total[name] += result[name];
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
    const places = new Map<Cell, number[]>();
    for (const [place, id] of idsOf(columns, rows).entries()) {
      const cell = this.#parts.cellOf(uuidText(id));
      const known = places.get(cell);
      if (known === undefined) places.set(cell, [place]);
      else known.push(place);
    }
    const targetOf = (cell: Cell) => {
      const target = this.#targets.get(cell) ?? this.#parts.open(cell);
      this.#targets.set(cell, target);
      return target;
    };
    if (places.size === 1) return [...places.keys()].map((cell) => [targetOf(cell), rows]);
    return [...places].map(([cell, own]) => [targetOf(cell), rowsAt(rows, own)]);
  }
}
