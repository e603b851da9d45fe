/** DATA_DIR deleted while Weir runs on a Postgres elsewhere: Weir serves, restarts its processes and stops without it. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';

/** Weir has ended after this. */
export function dataDirTests(chain: Chain): void {
  test('DATA_DIR is deleted under load', async () => {
    const { weir } = chain;
    const sender = await chain.startLoad({ lanes: 8, first: 100 });
    await rm(weir.dataDir, { recursive: true });
    await sender.acceptMore(100);
    weir.signal('SIGHUP');
    await until(() => chain.events('restarted').length + chain.events('restart_failed').length > 0);
    expect(chain.events('restart_failed')).toEqual([]);
    await sender.acceptMore(100);
    await sender.stop();
    expect(sender.refusals).toEqual([]);
    expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
    weir.signal('SIGTERM');
    expect(await weir.ended).toBe(0);
  });
}
