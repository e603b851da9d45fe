/** The role of the processes with the embedded database. The tests of test/helpers/app.ts use it in every process, too. */
import { expect, test } from 'vitest';
import { asRole } from '../../../server/store/connect/conninfo.ts';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { SERVING_ROLE } from '../../../server/store/embedded/serving-role.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { ofTest } from '../../helpers/shared.ts';
import { copyDataDir, makeDataDir, startWeir } from '../../helpers/weir.ts';

test.each([
  ['a new data directory', makeDataDir],
  ['one of an earlier release', copyDataDir],
])('with %s, processes serve without a superuser', async (_, make) => {
  const weir = await ofTest(startWeir({ DATA_DIR: await make(), WORKERS: 1 }));
  const { path, secret } = await weir.addWebhook();
  expect((await fetch(`http://127.0.0.1:${weir.port}${path}`, signedRequest({ secret }))).status).toBe(202);
  const sessions = await weir.sql(`
      select distinct application_name as name, usename as role, usesuper as super
      from pg_stat_activity join pg_user using (usename) where application_name in ('weir', 'weir-copy', 'weir-listener') order by 1`);
  expect(sessions).toEqual([
    { name: 'weir', role: SERVING_ROLE, super: false },
    { name: 'weir-copy', role: SERVING_ROLE, super: false },
    { name: 'weir-listener', role: 'weir', super: true },
  ]);

  const role = asRole(weir.conninfo, SERVING_ROLE);
  const serving = await ofTest(openDatabase(role, { connectionsMax: 1, applicationName: 'weir-test' }));
  for (const text of [
    `copy (select 1) to program 'true'`,
    `select pg_read_file('postgresql.conf')`,
    'set role weir',
    'drop table users',
    'alter table audit_log disable trigger audit_log_append_only',
  ])
    await expect(serving.query({ text }), text).rejects.toThrow(/permission denied|must be (owner|superuser)/);
});
