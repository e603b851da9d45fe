/** Transactions that stay open, so that others wait for their locks. */
import { openDatabase } from '../../server/store/connect/pool.ts';
import { gate } from './wait.ts';

/** Ends it. */
export type Release = () => Promise<void>;

/** Keeps a transaction open with its locks, until it is released or its server ends. */
export async function hold(conninfo: string, text: string, applicationName = 'weir-test'): Promise<Release> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName, onError: () => {} });
  const { opened: released, open: release } = gate();
  let ended: Promise<unknown> = Promise.resolve();
  await new Promise<void>((held, failed) => {
    ended = database.transaction(async (query) => {
      await query({ text: 'set local idle_in_transaction_session_timeout = 0' });
      await query({ text });
      held();
      await released;
    });
    ended.catch(failed);
  });
  let closing: Promise<void> | undefined;
  return () => {
    release();
    closing ??= ended.catch(() => {}).then(() => database.close());
    return closing;
  };
}

/** Rows of a query on a connection of its own. */
export async function rowsOf(conninfo: string, text: string): Promise<object[]> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'test', onError: () => {} });
  return database.query({ text }).finally(() => database.close());
}
