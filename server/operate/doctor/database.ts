/** Database checks: reachable, supported version, durable, writable, vacuumed, migrated, partitions created ahead, secrets readable. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { LockError } from '../../base/files/lock.ts';
import type { Settings } from '../../base/settings/read.ts';
import { explainRefusedConnection } from '../../manage/conditions/commit-failure.ts';
import { type Check, ok, problem, problemOf } from '../../model/check.ts';
import { describeConninfo, withoutSecrets } from '../../store/connect/conninfo.ts';
import { type Database, openDatabase } from '../../store/connect/pool.ts';
import { EmbeddedPostgresError } from '../../store/embedded/error.ts';
import { joinEmbeddedPostgres } from '../../store/embedded/join.ts';
import { embeddedConnections } from '../../store/open.ts';
import { readDatabaseBytes } from '../../store/queries/server-state.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import {
  checkDurability,
  checkFit,
  checkVersion,
  checkWal,
  checkWritable,
  readServer,
} from '../../store/server-checks.ts';
import { checkAlerts } from './alerts.ts';
import { checkConnections } from './connections.ts';
import { checkSchema } from './schema.ts';
import { checkAutovacuum, checkClock, checkJobs } from './upkeep.ts';

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
    const maxConnections = embeddedConnections(settings);
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
      ...(await checkFit(database, facts)),
      ...writable,
      await checkConnections(database, circumstances.settings),
      ...(await checkSize(database, circumstances.settings)),
      checkDurability(facts),
      checkWal(facts),
      await checkAutovacuum(database),
      await checkClock(database, circumstances.nowMs),
      ...(await checkJobs(database)),
      ...(await checkSchema(database, {
        ...circumstances,
        conninfo,
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

/** The disk of a separate server is not visible; only the size of its database is. */
async function checkSize(database: Database, settings: Settings): Promise<Check[]> {
  if (settings.database.kind === 'embedded') return [];
  const size = ((await readDatabaseBytes(database)) / 2 ** 30).toFixed(1);
  return [ok('database_size', `${size} GiB; Weir cannot see the free space on the server, monitor it there`)];
}
