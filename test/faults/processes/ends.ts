/** The end of Weir by signals under load: all accepted requests are answered, and nothing is left behind. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { acquireLock } from '../../../server/base/files/lock.ts';
import { commands } from '../../../server/cli/commands.ts';
import type { Chain } from '../../helpers/chain.ts';
import { runCommands } from '../../helpers/command.ts';
import { freePort } from '../../helpers/ports.ts';
import { isListening, postgresPids, processesOf } from '../../helpers/processes.ts';
import { RawClient, signatureOf } from '../../helpers/requests.ts';
import { DRAINING } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { makeDataDir, readiness, spawnWeir } from '../../helpers/weir.ts';
import { expectNothingLost } from '../under-load.ts';

export function endTests(chain: Chain): void {
  /** Starts an upload on an accepted connection and sends half of it; `finish` sends the rest. */
  async function beginUpload() {
    const body = JSON.stringify({ slow: 'sender'.repeat(100) });
    const client = await RawClient.connect(chain.weir.port);
    // A connection that waits in the queue of the kernel would be reset.
    await client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await client.answer())!.status).toBe(200);
    const fields = [
      `Content-Length: ${body.length}`,
      `X-Hub-Signature-256: ${signatureOf(chain.webhook.secret, body)}`,
    ];
    const head = [`POST ${chain.webhook.path} HTTP/1.1`, 'Host: x', ...fields].join('\r\n');
    await client.send(`${head}\r\n\r\n${body.slice(0, 100)}`);
    return { client, finish: () => client.send(body.slice(100)) };
  }

  async function expectNothingLeft(): Promise<void> {
    expect(await processesOf(chain.weir.dataDir)).toEqual([]);
    expect(await Promise.all([chain.weir.port, chain.weir.metricsPort].map(isListening))).toEqual([false, false]);
    expect(await postgresPids(chain.weir.dataDir)).toBeNull();
  }

  test('INT twice: accepted requests are answered, and nothing is left behind', async () => {
    const sender = await chain.startLoad(DRAINING);
    // After the load began: uWebSockets.js ends an upload that is slow for twelve seconds.
    const upload = await beginUpload();
    chain.weir.signal('SIGINT');
    await until(() => chain.events('draining').length === 1);
    chain.weir.signal('SIGINT');
    await until(async () => !(await isListening(chain.weir.port)));
    await upload.finish();
    expect(await upload.client.answer()).toMatchObject({ status: 202, headers: { connection: 'close' } });
    expect(await chain.weir.ended).toBe(0);
    await sender.stop();
    await expectNothingLeft();
    // A busy machine needs the delay for what the next test does in it. uWebSockets.js ends a slow upload after eight seconds at the earliest.
    await chain.startAgain({ DRAIN_DELAY_SECONDS: 6, DRAIN_SECONDS: 1 });
    await expectNothingLost(chain, sender, { losses: 'of new connections' });
  });

  test('TERM with a delay: readyz is 503 while all requests are served', async () => {
    const sender = await chain.startLoad(DRAINING);
    chain.weir.signal('SIGTERM');
    const reported = await until(async () => {
      const answer = await readiness(chain.weir.port);
      return answer?.status === 503 && answer;
    });
    expect(reported).toMatchObject({ retryAfter: '1', checks: { draining: 'failing', database: 'ok' } });
    const { dataDir } = chain.weir;
    expect(await runCommands(commands, dataDir, { DATA_DIR: dataDir }, ['processes', '3'])).toEqual({
      code: 1,
      out: '',
      err: 'weir: Weir is stopping\n',
    });
    await sender.acceptMore(20);
    expect(sender.refusals).toEqual([]);
    expect(sender.losses).toEqual([]);

    // An upload that never ends is aborted after DRAIN_SECONDS.
    const upload = await beginUpload();
    expect(await chain.weir.ended).toBe(0);
    await upload.client.ended();
    expect(await upload.client.answer()).toBeNull();
    expect(chain.events('drain_timeout')).not.toEqual([]);
    await sender.stop();
    await expectNothingLeft();
    await chain.startAgain();
    await expectNothingLost(chain, sender, { losses: 'of new connections' });
  });

  test('TERM while another process starts or stops the embedded Postgres ends the wait', async () => {
    const dataDir = await makeDataDir();
    const lock = (await acquireLock(join(dataDir, 'postgres.start.lock'), 'exclusive', 0))!;
    const waiting = spawnWeir({ DATA_DIR: dataDir, PORT: await freePort(), METRICS_PORT: await freePort() });
    try {
      const isWaiting = () =>
        waiting.events('database_starting').some(({ line }) => String(line).startsWith('Waiting: '));
      await until(isWaiting);
      waiting.child.kill('SIGTERM');
      expect(await waiting.ended).toBe(0);
      expect(waiting.events('stopped')).toHaveLength(1);
      expect(waiting.stderr()).toBe('');
    } finally {
      waiting.child.kill('SIGKILL');
      await lock.release();
      await rm(dataDir, { recursive: true });
    }
  });
}
