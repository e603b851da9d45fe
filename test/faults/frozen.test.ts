/** Processes of Weir that are stopped, as by a debugger, a full swap or an endless loop, and continue or do not. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { missing, startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { kill, PATIENCE_MS, readiness, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 240_000;
const eventually = { timeoutMs: PATIENCE_MS };

let weir: Weir;
let webhook: { path: string; secret: string };
const start = async (silentSeconds: number) => {
  weir = await startWeir({ PROCESS_SILENT_SECONDS: silentSeconds });
  webhook = await weir.addWebhook();
};
let frozen: number[] = [];
function freeze(pid: number): void {
  kill(pid, 'SIGSTOP');
  frozen.push(pid);
}
function thaw(): void {
  for (const pid of frozen) kill(pid, 'SIGCONT');
  frozen = [];
}
beforeEach(() => {
  frozen = [];
});
afterEach(async () => {
  thaw();
  await weir.stop();
}, TEST_MS);

test('a stopped process delays the requests of its connections, and loses none when it continues', {
  timeout: TEST_MS,
}, async () => {
  await start(3_600);
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(300);
  expect(sender.answeredBy.size).toBe(2);
  freeze((await weir.servingPids())[0]!);
  // The other process accepts these requests.
  await sender.acceptMore(500);
  thaw();
  await sender.acceptMore(500);
  await sender.stop();
  expect(sender.refusals).toEqual([]);
  expect(sender.losses).toEqual([]);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
  expect(await weir.metric('weir_process_restarts_total')).toBe(0);
});

test('a process that does not answer for PROCESS_SILENT_SECONDS is replaced', { timeout: TEST_MS }, async () => {
  await start(10);
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(300);
  const [victim] = await weir.servingPids();
  freeze(victim!);
  const beganMs = performance.now();
  await until(() => weir.events('process_exited').length > 0, eventually);
  const seconds = (performance.now() - beganMs) / 1000;
  expect(weir.events('process_exited')).toMatchObject([
    { process: victim, reason: 'it did not answer for 10 s (PROCESS_SILENT_SECONDS)' },
  ]);
  await until(async () => (await weir.metric('weir_processes')) === 2, eventually);
  await sender.acceptMore(500);
  await sender.stop();
  console.log(
    `a stopped process was replaced after ${seconds.toFixed(1)} s; ${sender.losses.length} requests had no answer`,
  );
  // At most one request a connection was in progress at the stopped process.
  expect(sender.losses.length).toBeLessThanOrEqual(32);
  expect(sender.refusals).toEqual([]);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
});

test('while the primary is stopped, its processes serve; it continues without replacing them', {
  timeout: TEST_MS,
}, async () => {
  await start(10);
  const before = await weir.servingPids();
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(300);
  freeze(weir.pid);
  // For longer than the processes need to notice the silence of the primary (1 s): then they check with the database.
  const untilMs = performance.now() + 12_000;
  while (performance.now() < untilMs) await sender.acceptMore(100);
  expect((await readiness(weir.port))?.status).toBe(200);
  thaw();
  await until(async () => (await weir.metric('weir_processes')) === 2, eventually);
  await sender.acceptMore(300);
  await sender.stop();
  expect(sender.refusals).toEqual([]);
  expect(sender.losses).toEqual([]);
  expect(await weir.servingPids()).toEqual(before);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
});
