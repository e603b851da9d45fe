/** A leader that crashes without its synchronous standby: what only the leader has was not answered 202. */
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { until } from '../../helpers/wait.ts';
import { kill, readiness } from '../../helpers/weir.ts';

const KEY_HEADER = 'x-delivery';

export function standbyTests(chain: Chain): void {
  /** Such a row is visible at once, but a failover would lose it. */
  test.each([
    { name: 'COPY', webhook: {} },
    { name: 'a statement', webhook: { dedupe_header: KEY_HEADER } },
  ])('a leader that crashes: a row of $name that no standby has is not answered 202', async ({ webhook }) => {
    const { weir } = chain;
    const { id, path, secret } = await weir.addWebhook(undefined, webhook);
    const run = (text: string) => weir.database.query({ text });
    await run(`alter system set synchronous_standby_names = 'nobody'`);
    await run('select pg_reload_conf()');
    const headers = { [KEY_HEADER]: 'a key' };
    const answer = fetch(`http://127.0.0.1:${weir.port}${path}`, signedRequest({ secret, headers }));
    // It waits for the standby.
    await until(async () => (await run(`select from pg_stat_activity where wait_event = 'SyncRep'`)).length > 0);
    kill((await postgresPids(weir.dataDir))!.postmaster, 'SIGKILL');
    expect((await answer).status).toBe(503);

    const count = () =>
      weir.database.query<{ count: number }>({
        text: `select count(*)::int as count from events where webhook_id = '${id}'`,
      });
    expect(await until(() => count().catch(() => null))).toEqual([{ count: 1 }]);
    const changed = until(() =>
      run('alter system reset synchronous_standby_names').then(
        () => true,
        () => false,
      ),
    );
    await changed;
    await run('select pg_reload_conf()');
    await until(async () => (await readiness(weir.port))?.status === 200);
  });
}
