/** An outage of the database of a running Weir. */
import { onTestFinished } from 'vitest';
import { openDatabase } from '../../server/store/connect/pool.ts';

/**
 * Closes the sessions of the database `weir` and refuses new ones, until `restore` or the end of the test.
 * @param conninfo of that database
 */
export async function cutOff(conninfo: string): Promise<{ restore: () => Promise<unknown> }> {
  const admin = openDatabase(conninfo.replace('dbname=weir', 'dbname=postgres'), {
    connectionsMax: 1,
    applicationName: 'weir-test',
    onError: () => {},
  });
  const run = (text: string) => admin.query({ text });
  const restore = () => run('alter database weir allow_connections true');
  onTestFinished(async () => {
    await restore();
    await admin.close();
  });
  await run('alter database weir allow_connections false');
  await run(`select pg_terminate_backend(pid) from pg_stat_activity where datname = 'weir'`);
  return { restore };
}
