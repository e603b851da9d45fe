/** Checks of the database server: reachable, supported version, durable, writable, vacuumed, with enough connections, migrated. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { weirCommand } from '../../base/command/name.ts';
import { LockError } from '../../base/files/lock.ts';
import { DAY_MS } from '../../base/time/durations.ts';
import { explainRefusedConnection } from '../../manage/conditions/commit-failure.ts';
import { advice, broken, brokenBy, type Check, type CheckTable, ok, runChecks } from '../../model/check.ts';
import { inGib } from '../../model/words.ts';
import { describeConninfo, withoutSecrets } from '../../store/connect/conninfo.ts';
import { type Database, openDatabase } from '../../store/connect/pool.ts';
import { oneLine } from '../../store/connect/unavailable.ts';
import { EmbeddedPostgresError } from '../../store/embedded/account.ts';
import { joinEmbeddedPostgres } from '../../store/embedded/join.ts';
import { type Applied, appliedVersions, newestOf, pendingOf, versionProblem } from '../../store/migrate.ts';
import { checkConnectionBudget, connectionsNeeded, DatabaseError, embeddedConnections } from '../../store/open.ts';
import { readDatabaseClock, readDatabaseSize } from '../../store/queries/server-state.ts';
import { dayMs } from '../../store/retention/partitions.ts';
import * as server from '../../store/server-checks.ts';
import { type Circumstances, listed, type Reached, schemaChecks } from './schema.ts';

/**
 * Checks the database, and changes nothing. An embedded server that is down is started for the duration of the checks.
 * @param log progress of the embedded server, for people
 */
export async function checkDatabase(given: Circumstances, log: (line: string) => void): Promise<Check[]> {
  const { settings } = given;
  const name = 'database';
  if (settings.database.kind === 'server') return checkServer(settings.database.conninfo, given);
  const { DATA_DIR: dataDir } = settings;
  const pgdata = join(dataDir, 'postgres');
  const exists = await access(pgdata).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );
  if (!exists) return [{ name, ...ok(`the embedded database will be created in ${pgdata} at the first start`) }];
  try {
    const maxConnections = embeddedConnections(settings);
    const embedded = await joinEmbeddedPostgres({ dataDir, maxConnections, joinSmaller: true, log });
    return await checkServer(embedded.conninfo, given).finally(() => embedded.leave());
  } catch (error) {
    if (!(error instanceof EmbeddedPostgresError || error instanceof LockError)) throw error;
    return [{ name, ...brokenBy(error, `see ${join(dataDir, 'postgres.log')}`) }];
  }
}

async function checkServer(conninfo: string, given: Circumstances): Promise<Check[]> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-doctor' });
  try {
    const [facts, applied] = [await server.readServer(database), await appliedVersions(database)];
    const reached = { ...given, conninfo, database, facts, applied };
    const checks = await runChecks(serverChecks, reached);
    return isCurrent(applied) ? [...checks, ...(await runChecks(schemaChecks, reached))] : checks;
  } catch (error) {
    const { message } = error as Error;
    const found = broken(
      `the database at ${describeConninfo(conninfo)} cannot be used: ${oneLine(withoutSecrets(message, conninfo))}`,
      explainRefusedConnection(message)?.fix ??
        'start it, or check DATABASE_URL or the POSTGRES_* settings (an @, / or : in a password of a URL is written %40, %2F, %3A)',
    );
    return [{ name: 'database', ...found }];
  } finally {
    await database.close();
  }
}

/** Above this difference, leases and limits of time are off by a noticeable amount. */
const CLOCK_ADVICE_MS = 1_000;
/** Above this difference, times from Weir (events) and times from the database (leases, sessions) contradict each other. */
const CLOCK_DIFFERENCE_MAX_MS = 10_000;

export const serverChecks = {
  async database({ database, facts, conninfo }) {
    const found = [server.checkVersion(facts, describeConninfo(conninfo)), await server.checkFit(database, facts)];
    return [...found, server.checkWritable(facts)].filter((one) => one !== null);
  },
  /** The server must have enough connections for Weir beside those of other clients. */
  async connections({ database, settings }) {
    const needed = connectionsNeeded(settings);
    if (settings.database.kind === 'embedded')
      return ok(`Weir opens up to ${needed}, and the embedded server is configured to allow them`);
    try {
      await checkConnectionBudget(database, settings);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      return brokenBy(error, 'raise max_connections');
    }
    const { max, reserved, others } = await readConnections(database);
    const allowed = max - reserved;
    const left = Math.max(allowed - others, 0);
    if (left >= needed)
      return ok(`Weir opens up to ${needed}; the server allows ${allowed}, and other clients use ${others}`);
    return broken(
      `other clients use ${others} of the ${allowed} connections that the server allows: ${left} are left, and Weir opens up to ${needed}`,
      `raise max_connections to ${needed + others + reserved} or more, lower WORKERS or DB_POOL_MAX, or close connections of other clients: webhook requests that get no connection are answered 503`,
    );
  },
  /** The disk of a separate server is not visible. The size of its database is, now and when retention removes as much as arrives. */
  async database_size({ database, settings, nowMs }) {
    if (settings.database.kind === 'embedded') return null;
    const { bytes, dayBytes, firstDay } = await readDatabaseSize(database);
    const storedDays = firstDay === null ? 0 : Math.ceil((nowMs() - dayMs(firstDay)) / DAY_MS);
    const expected = bytes + dayBytes * Math.max(settings.RETENTION_DAYS - storedDays, 0);
    return ok(
      `${inGib(bytes)}, of which ${inGib(dayBytes)} were received yesterday: ${inGib(expected)} when RETENTION_DAYS (${settings.RETENTION_DAYS}) are stored; Weir cannot see the free space on the server, monitor it there`,
    );
  },
  durability: ({ facts }) => server.checkDurability(facts),
  wal: ({ facts }) => server.checkWal(facts),
  /** Each delivery is updated several times. Without autovacuum the dead rows stay, and every claim reads them. */
  async autovacuum({ database }) {
    const { off, tables } = await readUnvacuumed(database);
    if (off.length > 0)
      return broken(
        `${off.join(' and ')} ${off.length === 1 ? 'is' : 'are'} off: dead rows are not removed, and claims keep getting slower`,
        server.turnOn(off),
      );
    if (tables.length === 0) return ok('on, for every table');
    return broken(
      `off for ${listed(tables)}: their dead rows are not removed, and queries keep getting slower`,
      `for each table: alter table ${tables[0]} reset (autovacuum_enabled, toast.autovacuum_enabled)`,
    );
  },
  /** The clock of this machine and that of the database, apart from what the response time of the query explains. */
  async clock({ database, nowMs }) {
    const beforeMs = nowMs();
    const thereMs = await readDatabaseClock(database);
    const aheadMs = beforeMs - thereMs;
    const differenceMs = Math.max(aheadMs, thereMs - nowMs(), 0);
    if (differenceMs <= CLOCK_ADVICE_MS) return ok('the clocks of this machine and of the database agree');
    const finding = `the clock of this machine is ${(differenceMs / 1000).toFixed(1)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the database`;
    const fix = 'synchronize both clocks with NTP (chrony or systemd-timesyncd)';
    if (differenceMs <= CLOCK_DIFFERENCE_MAX_MS) return advice(`${finding}; at most one second is expected`, fix);
    return broken(`${finding}: times of events, leases and sessions are inconsistent`, fix);
  },
  migrations({ applied }) {
    if (applied.size === 0) return ok('the database is empty; the first start creates the schema');
    const unusable = versionProblem(applied);
    if (unusable !== null) return brokenBy(unusable, 'run another release');
    if (isCurrent(applied)) return ok(`the schema is at version ${newestOf(applied)}, which this release can serve`);
    const pending = pendingOf(applied).map(({ name }) => name);
    return advice(`not applied yet: ${pending.join(', ')}`, `${weirCommand()} migrate, or restart Weir`);
  },
} satisfies CheckTable<Reached>;

function isCurrent(applied: Applied): boolean {
  return applied.size > 0 && versionProblem(applied) === null && pendingOf(applied).length === 0;
}

interface Connections {
  /** The setting max_connections. */
  max: number;
  /** Reserved for superusers and for pg_use_reserved_connections. */
  reserved: number;
  /** Connections of clients other than the Weir of this machine. */
  others: number;
}

/**
 * Weir's connections are recognized by application name and by the client address of this connection. Without pg_read_all_stats,
 * Postgres hides the address and the backend type of other users' sessions; those count as other clients.
 */
async function readConnections(database: Database): Promise<Connections> {
  const [row] = await database.query<Connections>({
    text: `
      with me as (select client_addr, datid, application_name from pg_stat_activity where pid = pg_backend_pid())
      select current_setting('max_connections')::int as max,
        current_setting('superuser_reserved_connections')::int
          + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
        count(*) filter (where not coalesce(
          (a.application_name = me.application_name or a.application_name ~ '^weir(-|$)')
            and a.datid = me.datid and a.client_addr is not distinct from me.client_addr, false))::int as others
      from pg_stat_activity a, me
      where a.usesysid is not null and a.datid is not null and coalesce(a.backend_type, 'client backend') = 'client backend'`,
  });
  return row!;
}

/** Settings of the server, and tables, for which autovacuum is off. */
async function readUnvacuumed(database: Database): Promise<{ off: string[]; tables: string[] }> {
  const [row] = await database.query<{ off: string[]; tables: string[] }>({
    text: `
      select array_remove(array[
          case current_setting('autovacuum') when 'off' then 'autovacuum' end,
          case current_setting('track_counts') when 'off' then 'track_counts' end
        ], null) as off,
        array(
          select c.relname::text from pg_class c left join pg_class toast on toast.oid = c.reltoastrelid
          where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and exists (
            select from pg_options_to_table(c.reloptions || toast.reloptions)
            where option_name = 'autovacuum_enabled' and not option_value::boolean)
          order by 1
        ) as tables`,
  });
  return row!;
}
