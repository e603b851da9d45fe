/** State of the database server, for the status page. */
import type { Database, Queries } from '../connect/pool.ts';
import { migrationFiles, pendingMigrations } from '../migrate.ts';
import { readHorizon } from '../retention/partitions.ts';

interface ServerState {
  version: string;
  bytes: number;
  /** Open connections of all programs to this database. */
  connections: number;
  connectionsMax: number;
  schemaVersion: number;
  /** Names of pending migrations. */
  pending: string[];
  /** First and last day that has partitions, as YYYY-MM-DD; null: no partitions. */
  partitions: { first: string; last: string } | null;
}

/** Reads the state. Rejects with DatabaseUnavailable. */
export async function readServerState(database: Database): Promise<ServerState> {
  const [[row], pending, horizon] = await Promise.all([
    database.query<Pick<ServerState, 'version' | 'bytes' | 'connections' | 'connectionsMax'>>({
      text: `
        select current_setting('server_version') as version,
          pg_database_size(current_database())::float8 as bytes,
          (select count(*)::int from pg_stat_activity where datname = current_database()) as connections,
          current_setting('max_connections')::int as "connectionsMax"`,
    }),
    pendingMigrations(database),
    readHorizon(database),
  ]);
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  return {
    ...row!,
    schemaVersion: migrationFiles().findLast(({ name }) => !pending.includes(name))?.version ?? 0,
    pending,
    partitions: horizon && { first: day(horizon.fromMs), last: day(horizon.toMs - 1) },
  };
}

/** The clock of the database, Unix milliseconds. */
export async function readDatabaseClock({ query }: Queries): Promise<number> {
  const [row] = await query<{ ms: number }>({
    text: 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms',
  });
  return row!.ms;
}

/** Size of the database on disk in bytes, including indexes. */
export async function readDatabaseBytes({ query }: Queries): Promise<number> {
  const [row] = await query<{ bytes: number }>({
    text: 'select pg_database_size(current_database())::float8 as bytes',
  });
  return row!.bytes;
}
