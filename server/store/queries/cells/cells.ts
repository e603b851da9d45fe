/** The cells of the installation, at home, and what a cell says of itself. */
import { z } from 'zod';
import { cellNumber } from '../../../model/cells.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { expected } from '../../connect/unavailable.ts';
import { hasTable } from '../../migrate.ts';
import { isoText } from '../../sql.ts';

type CellState = 'adding' | 'active' | 'draining';

/** A cell as the processes use it. */
export interface CellRow {
  number: number;
  id: string;
  name: string;
  /** Connection string. */
  sealed: Buffer;
  state: CellState;
  mark: number;
  createdAtMs: number;
}

const columns = `number, id, name, sealed, state, mark::float8 as mark, (extract(epoch from created_at) * 1000)::float8 as "createdAtMs"`;

/** Reads all cells, by number; none before the migration that creates the table. */
export async function readCells(database: Queries): Promise<CellRow[]> {
  if (!(await hasTable(database, 'cells'))) return [];
  return database.query<CellRow>({ text: `select ${columns} from cells order by number` });
}

/** Locks a cell until the transaction ends. @param cell its number or its name */
export async function lockCell(query: Query, cell: number | string): Promise<CellRow | undefined> {
  const column = typeof cell === 'number' ? 'number' : 'name';
  const [row] = await query<CellRow>({
    text: `select ${columns} from cells where ${column} = $1 for update`,
    values: [cell],
  });
  return row;
}

/** Inserts a cell with the lowest number that no cell has. Returns the number. */
export async function insertCell(
  query: Query,
  { id, name, sealed }: Pick<CellRow, 'id' | 'name' | 'sealed'>,
): Promise<number> {
  await query({ text: 'lock table cells in share row exclusive mode' });
  const [row] = await query<{ number: number }>({
    text: `
      insert into cells (number, id, name, sealed, state)
      select min(n), $1, $2, $3, 'adding' from generate_series(1, 4095) n where not exists (select from cells where number = n)
      returning number`,
    values: [id, name, sealed],
  });
  return row!.number;
}

/** Sets the given members, and announces the cell. */
export async function updateCell(
  query: Query,
  number: number,
  { name, sealed, state, mark }: Partial<Pick<CellRow, 'name' | 'sealed' | 'state' | 'mark'>>,
): Promise<void> {
  await query({
    text: `update cells set name = coalesce($2, name), sealed = coalesce($3, sealed), state = coalesce($4, state),
             mark = coalesce($5, mark) where number = $1`,
    values: [number, name ?? null, sealed ?? null, state ?? null, mark ?? null],
  });
}

/** Deletes a cell. @param id not the number, which another cell may have since */
export async function deleteCell(query: Query, id: string): Promise<void> {
  await query({ text: 'delete from cells where id = $1', values: [id] });
}

/** Records at home the mark that was written to a cell, without an announcement of the cell. */
export async function noteMark({ query }: Queries, number: number, mark: number): Promise<void> {
  await query({ text: 'update cells set mark = greatest(mark, $2) where number = $1', values: [number, mark] });
}

const markSchema = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const selfSchema = z.object({ installation: z.guid(), number: cellNumber, mark: markSchema });
/** What a database says of itself. */
export type CellSelf = z.output<typeof selfSchema>;

/** Reads what a database says of itself; null: it is neither a cell nor a home with cells. */
export async function readSelf({ query }: Queries, timeoutMs?: number): Promise<CellSelf | null> {
  const [row] = await query<CellSelf>({
    text: 'select installation, number, mark::float8 as mark from cell_self',
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return expected(selfSchema.nullable(), row ?? null);
}

/** Records which cell of which installation the database is, unless that is recorded. Returns what is recorded. */
export async function nameSelf(query: Query, installation: string, number: number): Promise<CellSelf> {
  const [row] = await query<CellSelf>({
    text: `
      insert into cell_self (installation, number) values ($1, $2)
      on conflict (one) do update set one = true
      returning installation, number, mark::float8 as mark`,
    values: [installation, number],
  });
  return row!;
}

/** Raises the mark of a cell, and returns it. */
export async function raiseMark({ query }: Queries): Promise<number> {
  const [row] = await query<{ mark: number }>({
    text: 'update cell_self set mark = mark + 1 returning mark::float8 as mark',
  });
  return expected(markSchema, row?.mark);
}

/** How full a cell is. */
interface CellFigures {
  events: number;
  bytes: number;
  /** Times of the oldest and the newest event, ISO; null without events. */
  oldestAt: string | null;
  newestAt: string | null;
}

/** Reads sizes without reading rows: the number of events is that of the planner's statistics. Call with the database of the cell. */
export async function readCellFigures({ query }: Queries): Promise<CellFigures> {
  const [row] = await query<CellFigures>({
    text: `
      select coalesce(sum(greatest(c.reltuples, 0)), 0)::float8 as events, pg_database_size(current_database())::float8 as bytes,
        (select ${isoText('received_at')} from events order by received_at limit 1) as "oldestAt",
        (select ${isoText('received_at')} from events order by received_at desc limit 1) as "newestAt"
      from pg_partition_tree('events') t join pg_class c on c.oid = t.relid where t.isleaf`,
  });
  return row!;
}

/** Counts, for each cell, its webhooks that are not deleted, and the objects of configuration that wait to be copied to it. */
export async function readCellUse({ query }: Queries): Promise<{
  webhooks: ReadonlyMap<number, number>;
  waiting: ReadonlyMap<number, number>;
}> {
  const webhooks = await query<{ cell: number; count: number }>({
    text: 'select cell, count(*)::int as count from webhooks where deleted_at is null group by cell',
  });
  const waiting = await query<{ cell: number; count: number }>({
    text: 'select cell, count(*)::int as count from cell_copies group by cell',
  });
  const byCell = (rows: readonly { cell: number; count: number }[]) =>
    new Map(rows.map(({ cell, count }) => [cell, count]));
  return { webhooks: byCell(webhooks), waiting: byCell(waiting) };
}

/** Whether a database has neither events nor deliveries. Call with the database of the cell. */
export async function isEmpty({ query }: Queries): Promise<boolean> {
  const [row] = await query<{ any: boolean }>({
    text: 'select exists (select from events) or exists (select from deliveries) as any',
  });
  return !row!.any;
}

/** Bytes by which the slowest standby is behind; null: there is no standby, or the role may not see one. */
export async function readReplicationLag({ query }: Queries): Promise<number | null> {
  const [row] = await query<{ lag: number | null }>({
    text: 'select max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn))::float8 as lag from pg_stat_replication',
  });
  return row!.lag;
}

/** More than the mark of any cell, so that every cell counts as restored. */
const MARK_MAX = 2 ** 52;

/**
 * Keeps all cells from being used until an operator accepts each. Call after a restore of home: the cells may be newer than home, or belong to
 * the installation that was backed up. Returns the numbers of the cells.
 */
export async function forgetMarks({ query }: Queries): Promise<number[]> {
  const rows = await query<{ number: number }>({
    text: `update cells set mark = ${MARK_MAX} returning number`,
  });
  return rows.map(({ number }) => number).sort((a, b) => a - b);
}
