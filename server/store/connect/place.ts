/**
 * Where a statement runs. Events, deliveries and dedupe keys of a webhook are in its cell; everything else is at home. Each
 * statement on those tables states its place, so that callers need only one Database. Without cells every statement runs at home.
 */
import type { CellAway } from '../../model/cells.ts';

/** Combines what each cell returned, in the order of the cells; home is the first. Not called for a single cell. */
export type Merge<Row> = (byCell: Row[][]) => Row[];

/**
 * A cell that is away has no rows. A function gets the cell, and those of the statement's `ids` that are in the cell. Absent: the statement
 * rejects.
 */
export type Lenient = true | ((away: CellAway, ids: readonly string[]) => void);

/** Absent: at home. */
export type Place<Row> =
  /** In the cell that the id of an event or a delivery names. */
  | { id: string }
  /** In each cell that one of the ids names; an id that is elsewhere finds no row. */
  | { ids: readonly string[]; merge?: Merge<Row>; lenient?: Lenient }
  | { cell: number }
  /** In every cell. */
  | { each: Merge<Row>; lenient?: Lenient }
  /** A setting of the transaction, wherever its statements run. */
  | 'session';

/** All rows, in the order of the cells. */
export function concatenated<Row>(byCell: readonly Row[][]): Row[] {
  return byCell.flat();
}

/** The newest rows by their ids, which begin with the time. */
export function newest<Row extends { id: string }>(limit: number): Merge<Row> {
  return (byCell) =>
    byCell
      .flat()
      .sort((a, b) => (a.id < b.id ? 1 : -1))
      .slice(0, limit);
}

/** One row with the sums of its numbers. Other members are those of the first row. */
export function summed<Row extends object>(byCell: readonly Row[][]): Row[] {
  const rows = byCell.flat();
  return rows.length === 0 ? [] : [rows.reduce(sumOf)];
}

/** One row for each key, its numbers summed, in the order of their first occurrence. */
export function summedBy<Row extends object>(
  keyOf: (row: Row) => string,
  combine: (one: Row, other: Row) => Row = sumOf,
): Merge<Row> {
  return (byCell) => {
    const rows = new Map<string, Row>();
    for (const row of byCell.flat()) {
      const known = rows.get(keyOf(row));
      rows.set(keyOf(row), known === undefined ? row : combine(known, row));
    }
    return [...rows.values()];
  };
}

/** One row for each key, its numbers summed, with the earliest of a time. */
export function earliestBy<Row extends object>(keyOf: (row: Row) => string, time: keyof Row): Merge<Row> {
  return summedBy(keyOf, (one, other) => ({
    ...sumOf(one, other),
    [time]: lesser(one[time] as string, other[time] as string),
  }));
}

/** The sum of each number, a null counting as 0. Other members are those of `one`. */
export function sumOf<Row extends object>(one: Row, other: Row): Row {
  const sum = { ...one };
  for (const [name, value] of Object.entries(other))
    if (typeof value === 'number') Object.assign(sum, { [name]: value + Number(one[name as keyof Row] ?? 0) });
  return sum;
}

/** The lesser of two ISO times or ids; null counts as absent. */
export function lesser<T extends string | number>(one: T | null, other: T | null): T | null {
  return one === null || other === null ? (one ?? other) : one < other ? one : other;
}
