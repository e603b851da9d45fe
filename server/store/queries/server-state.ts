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

const databaseBytes = 'pg_database_size(current_database())::float8';

/** Reads the state. Rejects with DatabaseUnavailable. */
export async function readServerState(database: Database): Promise<ServerState> {
  const [[row], pending, horizon] = await Promise.all([
    database.query<Pick<ServerState, 'version' | 'bytes' | 'connections' | 'connectionsMax'>>({
      text: `
        select current_setting('server_version') as version,
          ${databaseBytes} as bytes,
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

/** When the first migration was applied, in seconds since 1970, as text: the same as long as the database exists. */
export async function readFirstMigration({ query }: Queries): Promise<string> {
  const [row] = await query<{ appliedAt: string }>({
    text: `select extract(epoch from min(applied_at))::text as "appliedAt" from schema_migrations`,
  });
  return row!.appliedAt;
}

/** Bytes of a database on disk. Locks no table. */
export async function readDatabaseBytes({ query }: Queries): Promise<number> {
  const [row] = await query<{ bytes: number }>({ text: `select ${databaseBytes} as bytes` });
  return row!.bytes;
}

/** Size of a database on disk, including indexes. */
export interface DatabaseSize {
  bytes: number;
  /** Bytes of the events and finished deliveries that were received yesterday (UTC). */
  dayBytes: number;
  /** The oldest day that has a partition, such as `20260131`; null: no partitions. */
  firstDay: string | null;
}

/** Reads the size. Waits for tables that are being changed. For a cell on Citus, reads the size of the whole node. */
export async function readDatabaseSize({ query }: Queries): Promise<DatabaseSize> {
  const [row] = await query<DatabaseSize>({
    text: `
      select ${databaseBytes} as bytes,
        coalesce(sum(pg_total_relation_size(oid)) filter (
          where strpos(relname, to_char(now() at time zone 'UTC' - interval '1 day', 'YYYYMMDD')) > 0), 0)::float8 as "dayBytes",
        min(substring(relname from '[0-9]{8}')) as "firstDay"
      from pg_class where relkind = 'r' and relname ~ '^(events|deliveries)_[0-9]{8}(_[0-9]+)?$'`,
  });
  return row!;
}
