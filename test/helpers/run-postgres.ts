/** One Postgres for a run of the tests: the first file that asks for it starts it, the end of the run stops it. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type EmbeddedPostgres, joinEmbeddedPostgres } from '../../server/db/embedded/join.ts';
import { openDatabase } from '../../server/db/pool.ts';

/** Two files at a time, each with a few apps of up to six connections. */
const CONNECTIONS_MAX = 150;

/** Starts or joins the run's server. Never left: it ends with the folder of the run, see run-folder.ts. */
export async function joinRunPostgres(): Promise<EmbeddedPostgres> {
  const dataDir = join(tmpdir(), 'all');
  const postgres = await joinEmbeddedPostgres({ dataDir, maxConnections: CONNECTIONS_MAX, log: () => {} });
  if (postgres.started) await forgoTheDisk(postgres.conninfo);
  return postgres;
}

/** What this server holds ends with the run. Tests of what outlives a crash have servers of their own, with Weir's settings. */
async function forgoTheDisk(conninfo: string): Promise<void> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-test' });
  try {
    await database.query({ text: 'alter system set fsync = off' });
    await database.query({ text: 'select pg_reload_conf()' });
  } finally {
    await database.close();
  }
}
