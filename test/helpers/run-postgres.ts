/** One Postgres for a test run: the first file that needs it starts it, the end of the run stops it. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../../server/store/connect/pool.ts';
import { type EmbeddedPostgres, joinEmbeddedPostgres } from '../../server/store/embedded/join.ts';

/** Four files at a time, each with a few apps of at most six connections. */
const CONNECTIONS_MAX = 300;

let joined: Promise<EmbeddedPostgres> | undefined;

/** Starts or joins the server of the run, once per process. It is stopped with the directory of the run, see run-folder.ts. */
export function joinRunPostgres(): Promise<EmbeddedPostgres> {
  joined ??= startOrJoin();
  return joined;
}

async function startOrJoin(): Promise<EmbeddedPostgres> {
  const dataDir = join(tmpdir(), 'all');
  const postgres = await joinEmbeddedPostgres({ dataDir, maxConnections: CONNECTIONS_MAX, log: () => {} });
  if (postgres.started) await turnOffDurability(postgres.conninfo);
  return postgres;
}

/** Not durable: the data is deleted with the run. Tests of crashes start separate servers with Weir's settings. */
async function turnOffDurability(conninfo: string): Promise<void> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-test' });
  try {
    for (const name of ['fsync', 'full_page_writes']) await database.query({ text: `alter system set ${name} = off` });
    await database.query({ text: 'select pg_reload_conf()' });
  } finally {
    await database.close();
  }
}
