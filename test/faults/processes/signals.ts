/** Signals under load: HUP fails no request, TERM and INT answer all accepted requests and leave nothing behind. */
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
import { DRAINING, missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { makeDataDir, readiness, spawnWeir } from '../../helpers/weir.ts';

/** Requests without a response on a connection that had served one before: the server broke its promise. */
const broken = ({ losses }: { losses: { reused: boolean }[] }) => losses.filter(({ reused }) => reused);

export function restartTests(chain: Chain): void {
  test('TTIN and TTOU: one process more or fewer, never zero', async () => {
    const amount = async (count: number) => {
      await until(async () => (await chain.weir.servingPids()).length === count);
      await until(async () => (await chain.weir.metric('weir_processes')) === count);
    };
    chain.weir.signal('SIGTTIN');
    await amount(3);
    for (const count of [2, 1]) {
      chain.weir.signal('SIGTTOU');
      await amount(count);
    }
    chain.weir.signal('SIGTTOU');
    // Two pending signals are delivered by number, not in order: the response of the page shows that the first has arrived.
    await amount(1);
    chain.weir.signal('SIGTTIN');
    await amount(2);
    expect(chain.events('processes_changed').map(({ processes }) => processes)).toEqual([3, 2, 1, 2]);
  });

  test('weir processes: shows them, sets their number, and refuses more than the database has connections for', async () => {
    const run = async (...words: string[]) => {
      const { code, out, err } = await runCommands(
        commands,
        chain.weir.dataDir,
        { DATA_DIR: chain.weir.dataDir },
        words,
      );
      return { code, pids: [...out.matchAll(/^(\d+) +serving .*Z$/gm)].map(([, pid]) => Number(pid)), out, err };
    };
    const before = await run('processes');
    expect(before.pids).toEqual(await chain.weir.servingPids());
    expect(before.out).toMatch(/\nAll run \d+\.\d+\.\d+ \(\S+\)\.\n$/);
    expect((await run('processes', '3')).pids).toEqual([...before.pids, expect.any(Number)]);
    expect(await run('processes', '1000')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^weir: the database allows \d+ connections, but WORKERS=1000 and /),
    });
    expect(await run('processes', '0')).toMatchObject({ code: 2 });
    expect((await run('processes', '2')).pids).toHaveLength(2);
    await until(() => chain.events('processes_changed').length === 2);
    expect(chain.events('processes_changed').map(({ processes }) => processes)).toEqual([3, 2]);
  });

  test('HUP: every process is replaced without an error for keep-alive clients', async () => {
    const before = await chain.weir.servingPids();
    const sender = await chain.startLoad(DRAINING);
    chain.weir.signal('SIGHUP');
    await until(() => chain.events('restarted').length === 1);
    await sender.acceptMore(300);
    await sender.stop();
    const after = await chain.weir.servingPids();
    expect(after).toHaveLength(2);
    expect(after.filter((pid) => before.includes(pid))).toEqual([]);
    expect(sender.refusals).toEqual([]);
    expect(broken(sender)).toEqual([]);
    expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
  });
}

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
    expect(sender.refusals).toEqual([]);
    expect(broken(sender)).toEqual([]);
    await expectNothingLeft();
    // A busy machine needs the delay for what the next test does in it. uWebSockets.js ends a slow upload after eight seconds at the earliest.
    await chain.startAgain({ DRAIN_DELAY_SECONDS: 6, DRAIN_SECONDS: 1 });
    expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
  });

  test('TERM with a delay: readyz is 503 while all requests are served', async () => {
    const sender = await chain.startLoad(DRAINING);
    chain.weir.signal('SIGTERM');
    const reported = await until(async () => {
      const answer = await readiness(chain.weir.port);
      return answer?.status === 503 && answer;
    });
    expect(reported).toMatchObject({ retryAfter: '1', checks: { draining: 'failing', database: 'ok' } });
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
    expect(broken(sender)).toEqual([]);
    await expectNothingLeft();
    await chain.startAgain();
    expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
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
