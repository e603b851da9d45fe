/** A database for each test file, copied from a migrated template on the run's Postgres. */
import { randomBytes } from 'node:crypto';
import { type Database, type DatabasePool, openDatabase } from '../../server/store/connect/pool.ts';
import { prepareServingRole } from '../../server/store/embedded/serving-role.ts';
import { migrate } from '../../server/store/migrate.ts';
import { createPartitions } from '../../server/store/retention/partitions.ts';
import { joinRunPostgres } from './run-postgres.ts';

export interface FreshDatabase {
  name: string;
  conninfo: string;
  /** A pool for queries of the test. */
  database: DatabasePool;
  sql: Sql;
  /** Simulates an outage: open connections are closed and new ones refused, until `restore`. Includes `database`. */
  cutOff(): Promise<void>;
  restore(): Promise<void>;
  /** Closes all connections. */
  drop(): Promise<void>;
}

/** Runs a statement of the test. Without values it may be several. */
export type Sql = <Row extends object>(text: string, ...values: unknown[]) => Promise<Row[]>;

export function sqlOf({ query }: Pick<Database, 'query'>): Sql {
  return (text, ...values) => query({ text, ...(values.length > 0 && { values }) });
}

const TEMPLATE = 'weir_template';
/** Held while the template is created and copied; any number that Weir does not use. */
const TEMPLATE_LOCK = 911;

/** Creates a migrated database with partitions around now; drop it at the end. Takes about 50 ms after the first. */
export function freshDatabase(): Promise<FreshDatabase> {
  return createDatabase((conninfo, run) => makeTemplate(conninfo, run).then(() => TEMPLATE));
}

/** Creates a database without tables; drop it at the end. */
export function emptyDatabase(): Promise<FreshDatabase> {
  return createDatabase(async () => 'template0');
}

/** @param prepare ensures that the template exists, and returns its name */
async function createDatabase(prepare: (conninfo: string, run: Run) => Promise<string>): Promise<FreshDatabase> {
  const { conninfo: anyConninfo } = await joinRunPostgres();
  const name = `test_${randomBytes(6).toString('hex')}`;
  await withAdmin(anyConninfo, async (run) => {
    await run(`select pg_advisory_lock(${TEMPLATE_LOCK})`);
    try {
      const template = await prepare(anyConninfo, run);
      // Through the log, which is the default, it takes up to three times as long, and `drop database` twice as long.
      await run(`create database ${name} template ${template} strategy file_copy`);
    } finally {
      await run(`select pg_advisory_unlock(${TEMPLATE_LOCK})`);
    }
  });
  const conninfo = withName(anyConninfo, name);
  const database = openTestDatabase(conninfo);
  const asAdmin = (...statements: string[]) =>
    withAdmin(anyConninfo, async (run) => {
      for (const statement of statements) await run(statement);
    });
  return {
    name,
    conninfo,
    database,
    sql: sqlOf(database),
    cutOff: () =>
      asAdmin(
        `alter database ${name} allow_connections false`,
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
      ),
    restore: () => asAdmin(`alter database ${name} allow_connections true`),
    drop: async () => {
      await database.close();
      await asAdmin(`drop database ${name} with (force)`);
    },
  };
}

type Run = (sql: string) => Promise<object[]>;

/** Connection string of another database on the same server. */
function withName(conninfo: string, name: string): string {
  return conninfo.replace(/dbname=\w+/, `dbname=${name}`);
}

function openTestDatabase(conninfo: string): DatabasePool {
  return openDatabase(conninfo, { connectionsMax: 2, applicationName: 'weir-test', onError: () => {} });
}

let admin: { database: Database; idle: Promise<unknown> } | undefined;

/**
 * Work on the one connection of this process to the server, one at a time, since advisory locks belong to it. A connection costs as
 * much processor time as the copy of a database.
 */
async function withAdmin<T>(conninfo: string, work: (run: Run) => Promise<T>): Promise<T> {
  admin ??= {
    database: openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-test', onError: () => {} }),
    idle: Promise.resolve(),
  };
  const { database, idle } = admin;
  const done = idle.then(() => work((text) => database.query({ text })));
  admin.idle = done.catch(() => {});
  return done;
}

/** Created under another name and renamed, so that a database with this name is complete. */
async function makeTemplate(conninfo: string, run: Run): Promise<void> {
  if ((await run(`select from pg_database where datname = '${TEMPLATE}'`)).length > 0) return;
  const making = `${TEMPLATE}_making`;
  await run(`drop database if exists ${making}`);
  await run(`create database ${making}`);
  const database = openTestDatabase(withName(conninfo, making));
  try {
    await migrate(database);
    await prepareServingRole(database);
    await createPartitions(database, Date.now());
  } finally {
    await database.close();
  }
  await run(`alter database ${making} rename to ${TEMPLATE}`);
}

/** SQL: creates conflict_once(), the function of a trigger that fails at its first call, as a conflict of transactions does. */
export const createConflictOnce = `
  create sequence tries;
  create function conflict_once() returns trigger language plpgsql as $$
  begin
    if nextval('tries') = 1 then
      raise 'a conflict' using errcode = 'serialization_failure';
    end if;
    return null;
  end
  $$`;
