/** Kinds of faults, of the tests of faults and of the nemesis: each is made, and returns how it is undone. */
import type { Database } from '../../server/store/connect/pool.ts';
import { kill } from '../helpers/weir.ts';

/** Stops processes, as a debugger, a full swap or an endless loop does, until they continue. */
export function frozen(pids: readonly number[]): () => void {
  for (const pid of pids) kill(pid, 'SIGSTOP');
  return () => {
    for (const pid of pids) kill(pid, 'SIGCONT');
  };
}

/** A server that takes no writes. */
export async function readOnly(database: Pick<Database, 'query'>): Promise<() => Promise<void>> {
  const set = async (change: string) => {
    await database.query({ text: `alter system ${change}` });
    await database.query({ text: 'select pg_reload_conf()' });
  };
  await set('set default_transaction_read_only = on');
  return () => set('reset default_transaction_read_only');
}
