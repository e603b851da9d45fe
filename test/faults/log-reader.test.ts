/** A reader of the log that stops reading: Weir continues to serve, counts the lost lines, and can still be stopped. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { processesOf } from '../helpers/processes.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { ask, PATIENCE_MS, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 240_000;
const eventually = { timeoutMs: PATIENCE_MS };
/** Each request has a line with its path: the 16 MiB that Weir holds are full after some 2,500. */
const LONG_PATH = `/${'x'.repeat(7_000)}`;

let weir: Weir;
let webhook: { path: string; secret: string };
beforeAll(async () => {
  weir = await startWeir({ LOG_LEVEL: 'debug' });
  webhook = await weir.addWebhook();
}, TEST_MS);
afterAll(() => weir.stop(), TEST_MS);

const dropped = () => weir.metric('weir_log_lines_dropped_total');

async function fillLog(): Promise<void> {
  const before = await dropped();
  while ((await dropped()) === before)
    await Promise.all(
      Array.from({ length: 50 }, () => ask(weir.port, LONG_PATH).then(({ status }) => expect(status).toBe(404))),
    );
}

test('Weir continues to serve while nothing reads its log, and counts the lines that are lost', {
  timeout: TEST_MS,
}, async () => {
  const sender = startSender({ port: weir.port, ...webhook, lanes: 4 });
  await sender.acceptMore(50);
  weir.child.stdout!.pause();
  await fillLog();
  await sender.acceptMore(100);
  await sender.stop();
  expect([sender.refusals, sender.losses]).toEqual([[], []]);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);

  // Every line that arrives is whole, and the log goes on.
  weir.child.stdout!.resume();
  await until(async () => {
    await ask(weir.port, '/after-the-outage');
    return weir.events('request').some(({ path }) => path === '/after-the-outage');
  }, eventually);
});

test('TERM ends Weir although nothing reads its log', { timeout: TEST_MS }, async () => {
  weir.child.stdout!.pause();
  await fillLog();
  const ended = new Promise((resolve) => weir.child.once('exit', (code, signal) => resolve(signal ?? code)));
  weir.signal('SIGTERM');
  // The exit code is lost with the log: nothing but SIGKILL ends a program whose write does not return.
  expect(await ended).toBe('SIGKILL');
  expect(await processesOf(weir.dataDir)).toEqual([]);
  weir.child.stdout!.resume();
  await weir.ended;
});
