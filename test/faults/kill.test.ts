/** kill -9 under load: no event that was answered 202 is lost, and the service recovers automatically. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { isListening, look, postgresPids } from '../helpers/processes.ts';
import { missing, type Sender, startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { kill, PATIENCE_MS, readiness, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 120_000;
let weir: Weir;
let webhook: { path: string; secret: string };
let sender: Sender;

beforeAll(async () => {
  // A lost connection must be detected by its socket (an error may wake no poller, see db/copy.ts), not by this timeout.
  weir = await startWeir({ COMMIT_TIMEOUT_MS: 600_000 });
  webhook = await weir.addWebhook();
}, TEST_MS);
afterEach(() => sender.stop());
afterAll(() => weir.stop(), TEST_MS);

async function startLoad(): Promise<void> {
  sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(300);
}

/** All events that were answered 202 to this sender. */
async function expectNothingLost(): Promise<void> {
  await sender.stop();
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
}

const isGone = async (pid: number) => (await look(pid)) === null;
const eventually = { timeoutMs: PATIENCE_MS };

test('a killed process is replaced, and the others continue to serve', { timeout: TEST_MS }, async () => {
  await startLoad();
  const before = await weir.servingPids();
  kill(before[0]!, 'SIGKILL');
  const after = await until(async () => {
    const pids = await weir.servingPids();
    return pids.length === 2 && !pids.includes(before[0]!) && pids;
  }, eventually);
  expect(after).toContain(before[1]);
  await until(() => weir.events('process_up').some((line) => line.process === after[1]), eventually);
  await sender.acceptMore(300);
  expect(sender.refusals).toEqual([]);
  expect(weir.events('process_exited')).toMatchObject([{ process: before[0], reason: 'SIGKILL' }]);
  expect(await weir.metric('weir_process_restarts_total')).toBe(1);
  await expectNothingLost();
});

test('a Postgres session during a COPY', { timeout: TEST_MS }, async () => {
  await startLoad();
  const text = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-copy' and state = 'active'`;
  for (let cut = 0; cut < 12; ) {
    const rows = await weir.database.query({ text });
    cut += rows.length;
    if (rows.length > 0) await sender.acceptMore(50);
  }
  await expectNothingLost();
  expect(new Set(sender.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
  expect(sender.losses).toEqual([]);
});

test('Postgres itself', { timeout: TEST_MS }, async () => {
  await startLoad();
  const { postmaster } = (await postgresPids(weir.dataDir))!;
  kill(postmaster, 'SIGKILL');
  const reported = await until(async () => {
    const answer = await readiness(weir.port);
    return answer?.status === 503 && answer;
  }, eventually);
  expect(reported).toMatchObject({ retryAfter: '1', checks: { database: 'failing' } });
  const refused = await until(() => sender.refusals.find(({ status }) => status === 503), eventually);
  expect(refused).toMatchObject({ retryAfter: expect.stringMatching(/^[1-9]\d*$/), code: 'database_unavailable' });

  await sender.acceptMore(300);
  expect((await postgresPids(weir.dataDir))!.postmaster).not.toBe(postmaster);
  await until(async () => (await readiness(weir.port))?.status === 200, eventually);
  expect(sender.losses).toEqual([]);
  await expectNothingLost();
});

test('the primary: its processes end, and the next primary joins the running Postgres', {
  timeout: TEST_MS,
}, async () => {
  await startLoad();
  const processes = await weir.servingPids();
  const { postmaster } = (await postgresPids(weir.dataDir))!;
  kill(weir.pid, 'SIGKILL');
  await until(async () => (await Promise.all(processes.map(isGone))).every(Boolean), eventually);
  await until(async () => !(await isListening(weir.port)), eventually);
  await sender.stop();
  await weir.forget();

  const { dataDir } = weir;
  weir = await startWeir({ DATA_DIR: dataDir });
  expect((await postgresPids(dataDir))!.postmaster).toBe(postmaster);
  await expectNothingLost();
  await startLoad();
  await expectNothingLost();
});
