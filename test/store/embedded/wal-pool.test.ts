import { expect, test } from 'vitest';
import { asRole } from '../../../server/store/connect/conninfo.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { SERVING_ROLE } from '../../../server/store/embedded/serving-role.ts';
import { fillWalPool } from '../../../server/store/embedded/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { startWeir } from '../../helpers/weir.ts';

const FILE = 16 * 2 ** 20;
/** Free space. The tests use less than a tenth of it. */
const FREE = 1_000 * FILE;
const { signal } = new AbortController();

const weir = shared(() => startWeir({ WORKERS: 1 }));

async function ask<Value>(expression: string): Promise<Value> {
  const [row] = await weir.sql<{ value: Value }>(`select ${expression} as value`);
  return row!.value;
}

const files = () => ask<number>(`(select count(*)::int from pg_ls_waldir() where name ~ '^[0-9A-F]{24}$')`);
const filesBefore = (name: string) => ask<number>(`(select count(*)::int from pg_ls_waldir() where name < '${name}')`);
const set = async (setting: string, value: string) => {
  await weir.sql(`alter system set ${setting} = '${value}'`);
  await ask('pg_reload_conf()');
  await until(async () => (await ask(`current_setting('${setting}')`)) === value);
};
/** A checkpoint of the server makes another file when little is left of the current one. */
const orOneMore = (count: number) => [count, count + 1];
const makeFiles = (free = FREE) => fillWalPool(weir.database, free, signal);

test('the embedded database gets WAL files up to min_wal_size (96 MB in tests), which are used before one is made', async () => {
  await until(() => weir.events('wal_files_made').length > 0);
  expect(orOneMore(6)).toContain(await files());
  expect(weir.events('wal_files_made')).toMatchObject([{ files: expect.any(Number) }]);
  expect(await filesBefore(await ask('pg_walfile_name(pg_current_wal_lsn())'))).toBeLessThanOrEqual(1);
  expect(await makeFiles()).toBe(0);
});

test('the files take a tenth of the free space at most', async () => {
  await set('min_wal_size', '160MB');
  expect(await makeFiles(FILE)).toBe(0);
  const has = await files();
  const wanted = has + 2;
  expect(orOneMore(2)).toContain(await makeFiles((10 * wanted - has) * FILE));
});

test('no file is made while others write', async () => {
  await set('min_wal_size', '240MB');
  const before = await files();
  let looks = 0;
  const madeAfterLooks: number[] = [];
  const query: Database['query'] = async (statement) => {
    if (statement.text.includes('pg_ls_waldir') && looks++ < 5)
      await ask(`pg_logical_emit_message(false, 'test', repeat('x', 20000))`);
    if (statement.text.includes('pg_switch_wal')) madeAfterLooks.push(looks);
    return weir.database.query(statement);
  };
  expect(await fillWalPool({ ...weir.database, query }, FREE, signal)).toBe(15 - before);
  expect(madeAfterLooks[0]).toBeGreaterThan(5);
});

test('a role that may not is reported', async () => {
  const role = asRole(weir.conninfo, SERVING_ROLE);
  const serving = await ofTest(openDatabase(role, { connectionsMax: 1, applicationName: 'weir-test' }));
  await expect(fillWalPool(serving, FREE, signal)).rejects.toThrow('permission denied');
});
