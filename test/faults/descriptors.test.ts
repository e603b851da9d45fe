/** Clients that take all the connections, and a process without a file descriptor left: it continues to serve. */
import { expect, onTestFinished, test } from 'vitest';
import { RawClient } from '../helpers/requests.ts';
import { type Sender, startSender } from '../helpers/sender.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';
import { kill, startWeir } from '../helpers/weir.ts';

const OPEN_FILES = 400;
/** The limit less the reserve of 128. */
const CONNECTIONS_MAX = 272;
const healthz = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';

/** USR2 takes all descriptors of a process, and then gives them back. */
const takeAll = `import { closeSync, openSync } from 'node:fs'; const taken = [];
process.on('SIGUSR2', () => {
  if (taken.length > 0) return taken.splice(0).forEach((file) => closeSync(file));
  try { for (;;) taken.push(openSync('/dev/null')); } catch {}
});`;

const weir = shared(() =>
  startWeir(
    { WORKERS: 1, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(takeAll)}` },
    { within: ['sh', '-c', `ulimit -n ${OPEN_FILES}; exec "$@"`, 'sh'] },
  ),
);
const webhook = shared(() => weir.addWebhook());

/** A sender with few connections, which are open when this resolves. 300 events take seconds: in each, the primary asks the process. */
async function startLoad(): Promise<Sender> {
  const sender = await ofTest(startSender({ port: weir.port, ...webhook, lanes: 4, perSecondMax: 100 }));
  await sender.acceptMore(20);
  return sender;
}

test('connections over the limit are refused, and the others are served', async () => {
  const [pid] = await weir.servingPids();
  const sender = await startLoad();
  const clients: RawClient[] = [];
  onTestFinished(() => {
    for (const client of clients) client.destroy();
  });
  while (clients.length < OPEN_FILES + 50) clients.push(await RawClient.connect(weir.port));
  // The sender's connections end with their next response, and it finds places again when Weir has closed idle ones.
  await sender.acceptMore(300);
  expect(await weir.metric('weir_connections')).toBeLessThanOrEqual(CONNECTIONS_MAX);
  expect(await weir.metric('weir_connections_refused_total')).toBeGreaterThan(100);
  expect(sender.refusals).toEqual([]);
  expect([await weir.servingPids(), weir.events('process_exited')]).toEqual([[pid], []]);
  expect(weir.events('connections_limit')[0]).toMatchObject({ level: 40, limit: 'process', client: '127.0.0.1' });

  for (const client of clients) client.destroy();
  await until(async () => (await weir.metric('weir_connections')) < 20);
  const next = await RawClient.connect(weir.port);
  clients.push(next);
  void next.send(healthz);
  expect((await next.answer())!.status).toBe(200);
});

test('a process without a descriptor left stores the events of open connections, and reports its counts', async () => {
  const [pid] = await weir.servingPids();
  const sender = await startLoad();
  kill(pid!, 'SIGUSR2');
  await sender.acceptMore(300);
  expect(await weir.metric('weir_resident_bytes')).toBeGreaterThan(1_000_000);
  expect([sender.refusals, sender.losses]).toEqual([[], []]);
  expect([await weir.servingPids(), weir.events('process_exited')]).toEqual([[pid], []]);
  await sender.stop();

  kill(pid!, 'SIGKILL');
  await until(
    async () => (await weir.metric('weir_processes').catch(() => 0)) === 1 && (await weir.servingPids())[0] !== pid,
  );
});

test('a primary without a descriptor left continues, and replaces a process as soon as it has some', async () => {
  const [pid] = await weir.servingPids();
  kill(weir.pid, 'SIGUSR2');
  kill(pid!, 'SIGKILL');
  await until(() => weir.events('process_exited').some(({ reason }) => /EMFILE/.test(String(reason))));
  kill(weir.pid, 'SIGUSR2');
  await until(async () => (await weir.metric('weir_processes').catch(() => 0)) === 1);
  expect(await weir.servingPids()).toHaveLength(1);
});
