/** Database checks: reachable, supported version, durable, writable, vacuumed, migrated, partitions created ahead, secrets readable. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { LockError } from '../../base/files/lock.ts';
import type { Settings } from '../../base/settings/read.ts';
import { explainRefusedConnection } from '../../manage/conditions/commit-failure.ts';
import { advice, type Check, ok, problem, problemOf } from '../../model/check.ts';
import { describeConninfo, withoutSecrets } from '../../store/conninfo.ts';
import { EmbeddedPostgresError, joinEmbeddedPostgres } from '../../store/embedded/join.ts';
import { connectionsNeeded } from '../../store/open.ts';
import { type Database, openDatabase } from '../../store/pool.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import { checkAlerts } from './alerts.ts';
import { checkConnections } from './connections.ts';
import { checkSchema } from './schema.ts';
import { checkAutovacuum, checkClock, checkJit, checkJobs, checkStatementTimeout } from './upkeep.ts';

interface Circumstances {
  settings: Settings;
  /** Null when there is no usable key. */
  keys: SecretsKeys | null;
  /** Whether Weir is serving. */
  running: boolean;
  nowMs: () => number;
  /** Progress of the embedded server, for people. */
  log: (line: string) => void;
}

/** Changes nothing. An embedded server that is down is started for the duration of the checks. */
export async function checkDatabase(circumstances: Circumstances): Promise<Check[]> {
  const { settings, log } = circumstances;
  if (settings.database.kind === 'server') return checkServer(settings.database.conninfo, circumstances);
  const pgdata = join(settings.DATA_DIR, 'postgres');
  const exists = await access(pgdata).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );
  if (!exists) return [ok('database', `the embedded database will be created in ${pgdata} at the first start`)];
  try {
    const maxConnections = connectionsNeeded(settings);
    const embedded = await joinEmbeddedPostgres({ dataDir: settings.DATA_DIR, maxConnections, joinSmaller: true, log });
    return await checkServer(embedded.conninfo, circumstances).finally(() => embedded.leave());
  } catch (error) {
    if (!(error instanceof EmbeddedPostgresError || error instanceof LockError)) throw error;
    return [problemOf('database', error, `see ${join(settings.DATA_DIR, 'postgres.log')}`)];
  }
}

async function checkServer(conninfo: string, circumstances: Circumstances): Promise<Check[]> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-doctor' });
  try {
    const facts = await readServer(database);
    const writable = checkWritable(facts);
    return [
      checkVersion(facts, describeConninfo(conninfo)),
      ...writable,
      await checkConnections(database, circumstances.settings),
      ...(await checkSize(database, circumstances.settings)),
      checkDurability(facts),
      await checkAutovacuum(database),
      ...(await checkJit(database)),
      ...(await checkStatementTimeout(database)),
      await checkClock(database, circumstances.nowMs),
      ...(await checkJobs(database)),
      ...(await checkSchema(database, {
        ...circumstances,
        nowMs: circumstances.nowMs(),
        accepts: writable.length === 0,
      })),
      ...(await checkAlerts(database, circumstances.settings).catch(() => [])),
    ];
  } catch (error) {
    const { message } = error as Error;
    return [
      problem(
        'database',
        `the database at ${describeConninfo(conninfo)} cannot be used: ${withoutSecrets(message, conninfo)}`,
        explainRefusedConnection(message)?.fix ??
          'start it, or check DATABASE_URL or the POSTGRES_* settings (an @, / or : in a password of a URL is written %40, %2F, %3A)',
      ),
    ];
  } finally {
    await database.close();
  }
}

/** Values as Postgres reports them. */
interface ServerFacts {
  version: string;
  version_number: number;
  standby: boolean;
  read_only: string;
  may_create: boolean;
  fsync: string;
  synchronous_commit: string;
  full_page_writes: string;
}

async function readServer(database: Database): Promise<ServerFacts> {
  const [row] = await database.query<ServerFacts>({
    text: `select current_setting('server_version') as version,
             current_setting('server_version_num')::int as version_number,
             pg_is_in_recovery() as standby,
             current_setting('default_transaction_read_only') as read_only,
             coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
             current_setting('fsync') as fsync,
             current_setting('synchronous_commit') as synchronous_commit,
             current_setting('full_page_writes') as full_page_writes`,
  });
  return row!;
}

function checkVersion({ version, version_number }: ServerFacts, place: string): Check {
  const finding = `Postgres ${version} answers at ${place}`;
  if (version_number >= 150_000) return ok('database', finding);
  return advice('database', finding, 'upgrade: Weir is tested with 15 and newer');
}

export function checkWritable({ standby, read_only, may_create }: ServerFacts): Check[] {
  if (standby)
    return [
      problem('database', 'the server is a standby and accepts no writes', 'point DATABASE_URL at the primary server'),
    ];
  if (read_only === 'on')
    return [
      problem('database', 'default_transaction_read_only is on', 'alter role … reset default_transaction_read_only'),
    ];
  if (!may_create)
    return [
      problem(
        'database',
        'the database user cannot create tables, and Weir creates partitions every day',
        'grant usage, create on schema public to the user, or make it the owner of the database',
      ),
    ];
  return [];
}

/** The durability that a 202 promises depends on these three settings. */
function checkDurability(facts: ServerFacts): Check {
  const settings = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;
  const off = settings.filter((setting) => facts[setting] === 'off');
  if (off.length === 0)
    return ok('durability', `${settings.map((setting) => `${setting} ${facts[setting]}`).join(', ')}`);
  return problem(
    'durability',
    `${off.join(' and ')} ${off.length === 1 ? 'is' : 'are'} off: a power failure may lose events that were answered 202`,
    `${off.map((setting) => `alter system set ${setting} = on;`).join(' ')} select pg_reload_conf(); and look for "alter role" or "alter database" settings that turn it off`,
  );
}

/** The disk of a separate server is not visible; only the size of its database is. */
async function checkSize(database: Database, settings: Settings): Promise<Check[]> {
  if (settings.database.kind === 'embedded') return [];
  const [row] = await database.query<{ bytes: number }>({
    text: 'select pg_database_size(current_database())::float8 as bytes',
  });
  const size = (row!.bytes / 2 ** 30).toFixed(1);
  return [ok('database_size', `${size} GiB; Weir cannot see the free space on the server, monitor it there`)];
}
