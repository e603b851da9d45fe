/** DATA_DIR deleted while Weir runs on a Postgres elsewhere: Weir serves, restarts its processes and stops without it. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { freshDatabase } from '../helpers/postgres.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';
import { PATIENCE_MS, startWeir } from '../helpers/weir.ts';

const TEST_MS = 180_000;
const eventually = { timeoutMs: PATIENCE_MS };

test('DATA_DIR is deleted under load', { timeout: TEST_MS }, async () => {
  const fresh = await freshDatabase();
  const weir = await startWeir({ DATABASE_URL: fresh.conninfo, SECRETS_KEY: someKey });
  try {
    const webhook = await weir.addWebhook();
    const sender = startSender({ port: weir.port, ...webhook, lanes: 8 });
    await sender.acceptMore(100);
    await rm(weir.dataDir, { recursive: true });
    await sender.acceptMore(100);
    weir.signal('SIGHUP');
    await until(() => weir.events('restarted').length + weir.events('restart_failed').length > 0, eventually);
    expect(weir.events('restart_failed')).toEqual([]);
    await sender.acceptMore(100);
    await sender.stop();
    expect(sender.refusals).toEqual([]);
    expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
    expect(await missing(fresh.database, sender.accepted)).toEqual([]);
    weir.signal('SIGTERM');
    expect(await weir.ended).toBe(0);
  } finally {
    await weir.stop();
    await fresh.drop();
  }
});
