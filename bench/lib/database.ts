/** The database of one scenario: embedded Postgres in its own folder, fsync on, removed with the scenario. */
import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { DAY_MS } from '../../server/base/time/durations.ts';
import { makeDirectory } from '../../server/operate/load/environment.ts';
import { weirConninfo } from '../../server/store/connect/conninfo.ts';
import { type Database, openDatabase } from '../../server/store/connect/pool.ts';
import { joinEmbeddedPostgres } from '../../server/store/embedded/join.ts';
import { migrate } from '../../server/store/migrate.ts';
import { createDays, createPartitions } from '../../server/store/retention/partitions.ts';
import type { BenchContext } from './outcome.ts';

const CONNECTIONS_MAX = 120;
const SETTLED_MS = 50;

export interface BenchDatabase {
  /** Folder that is removed with the scenario. */
  directory: string;
  conninfo: string;
  database: Database;
  /** SECRETS_KEY of every Weir on this database, in base64. With another key Weir does not start. */
  secretsKey: string;
  /** Secret of the webhooks that are added, and of the load. */
  secret: string;
}

/** Creates the folder and a migrated database with today's partitions (or an empty one); `context.undo` removes both. */
export async function openBenchDatabase({ undo, say }: BenchContext, { migrated = true } = {}): Promise<BenchDatabase> {
  const directory = await makeDirectory();
  undo(() => rm(directory, { recursive: true, force: true }));
  const dataDir = join(directory, 'db');
  const embedded = await joinEmbeddedPostgres({ dataDir, maxConnections: CONNECTIONS_MAX, log: say });
  undo(() => embedded.leave());
  const database = openDatabase(embedded.conninfo, { connectionsMax: 1, applicationName: 'weir-bench' });
  undo(() => database.close());
  if (migrated) {
    await migrate(database);
    await createPartitions(database, Date.now());
  }
  const [secretsKey, secret] = [randomBytes(32).toString('base64'), randomBytes(24).toString('base64url')];
  return { directory, conninfo: embedded.conninfo, database, secretsKey, secret };
}

/** Creates the partitions of these last days, as an installation has them. */
export async function createPast(database: Database, days: number): Promise<void> {
  const times = Array.from({ length: days + 1 }, (_, day) => Date.now() - day * DAY_MS);
  await createDays(database, times);
}

/** Opens a connection outside of the pool. The caller ends it. */
export async function connectNative(conninfo: string, name: string): Promise<pg.Client> {
  const config = { nativeConnectionString: weirConninfo(conninfo, name) } as pg.ClientConfig;
  const client = new (pg.native as typeof pg).Client(config);
  await client.connect();
  return client;
}

/** The same address for node-postgres, which does not parse libpq's `key=value` format. */
export function pgOptions(conninfo: string): { host: string; port: number; user: string; database: string } {
  const word = (name: string) => new RegExp(`\\b${name}='?([^'\\s]+)`).exec(conninfo)?.[1] ?? '';
  return { host: word('host'), port: Number(word('port')), user: word('user'), database: word('dbname') };
}

/** Ids of all processes of the server that has this database: connections, writers and others. */
export async function postgresPids(database: Database): Promise<number[]> {
  const rows = await database.query<{ pid: number }>({ text: 'select pid from pg_stat_activity' });
  return rows.map(({ pid }) => pid);
}

/**
 * Counts committed rows once the count is stable: disconnected clients may have left requests in flight.
 * @param fromMs count only rows received since then: counting millions takes longer than storing them.
 */
export async function settledRows(database: Database, table: string, fromMs = 0): Promise<number> {
  const since = fromMs === 0 ? '' : ` where received_at >= to_timestamp(${fromMs / 1000})`;
  for (let before = -1; ; ) {
    const [row] = await database.query<{ count: string }>({ text: `select count(*) from ${table}${since}` });
    const now = Number(row!.count);
    if (now === before) return now;
    before = now;
    await delay(SETTLED_MS);
  }
}

/** Has Postgres log each statement that takes longer, also those of maintenance and alerts. */
export async function logSlowStatements({ database }: BenchDatabase, ms: number): Promise<void> {
  await database.query({ text: `alter system set log_min_duration_statement = ${ms}` });
  await database.query({ text: 'select pg_reload_conf()' });
}

/** Prints the first line of each statement that Postgres logged as slow, and counts them, without the checkpoints of a bench. */
export async function countSlowStatements({ say }: BenchContext, { directory }: BenchDatabase): Promise<number> {
  const log = await readFile(join(directory, 'db/postgres.log'), 'utf8');
  const slow = log.split('\n').filter((line) => / duration: [\d.]+ ms (?!.*checkpoint$)/.test(line));
  for (const line of slow) say(line);
  return slow.length;
}
