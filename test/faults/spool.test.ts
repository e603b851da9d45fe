/** The spool: while Postgres cannot commit, events are answered 202, and afterwards each of them is stored once, whatever was killed. */
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { look, postgresPids } from '../helpers/processes.ts';
import { missing, type Sender, startSender } from '../helpers/sender.ts';
import { canMount, mountSmallDisk, skippedNote } from '../helpers/small-disk.ts';
import { until } from '../helpers/wait.ts';
import { untilSaved } from '../helpers/webhooks.ts';
import { kill, makeDataDir, PATIENCE_MS, readiness, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 240_000;
const eventually = { timeoutMs: PATIENCE_MS };
let weir: Weir;
let sender: Sender;
let spoolDir: string;
let dataDir: string;
let fresh: FreshDatabase | null;
let unmount: () => void;

beforeEach(async () => {
  fresh = null;
  unmount = () => {};
  spoolDir = await mkdtemp(join(tmpdir(), 'weir-spool-'));
  // The account of the serving processes must reach it.
  await chmod(spoolDir, 0o711);
  dataDir = await makeDataDir();
});
afterEach(async () => {
  // Undefined when the start failed.
  await sender?.stop();
  await fresh?.restore();
  await weir?.stop();
  await fresh?.drop();
  unmount();
  for (const path of [spoolDir, dataDir]) await rm(path, { recursive: true, force: true });
}, TEST_MS);

const SECRETS_KEY = randomBytes(32).toString('base64');

/** Weir with a database that the test can cut off. */
async function startWithOwnDatabase(): Promise<void> {
  fresh ??= await freshDatabase();
  weir = await startWeir({
    DATABASE_URL: fresh.conninfo,
    SECRETS_KEY,
    DATA_DIR: dataDir,
    INGEST_SPOOL_DIR: spoolDir,
    INGEST_SPOOL_BYTES_MAX: 16_777_216,
  });
}

async function startLoad(): Promise<{ id: string }> {
  const webhook = await weir.addWebhook();
  sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(200);
  return webhook;
}

/** Every event that was answered is stored, none twice, and the spool is empty. */
async function expectEachStoredOnce(): Promise<void> {
  await sender.stop();
  await until(async () => (await filesOfSpool()).length === 0, eventually);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
  const [{ repeated }] = (await weir.database.query<{ repeated: number }>({
    text: 'select (count(*) - count(distinct body))::int as repeated from events',
  })) as [{ repeated: number }];
  expect(repeated).toBe(0);
}

async function filesOfSpool(): Promise<string[]> {
  return (await readdir(spoolDir, { recursive: true })).filter((name) => name.includes('/'));
}

const isGone = async (pid: number) => (await look(pid)) === null;

test('Postgres away: requests get 202, a killed process loses nothing, and the spool drains when Postgres is back', {
  timeout: TEST_MS,
}, async () => {
  await startWithOwnDatabase();
  const { id } = await startLoad();
  await untilSaved(dataDir, SECRETS_KEY, id, fresh!.database);
  await fresh!.cutOff();
  await sender.acceptMore(600);
  const reported = await until(async () => {
    const answer = await readiness(weir.port);
    return answer?.checks.database === 'spooling' && answer;
  }, eventually);
  expect(reported.status).toBe(200);
  await until(async () => (await weir.metric('weir_spool_events')) >= 300, eventually);
  expect(await weir.metric('weir_spool_bytes')).toBeGreaterThan(300 * 600);

  const [killed] = await weir.servingPids();
  kill(killed!, 'SIGKILL');
  await until(() => isGone(killed!), eventually);
  await sender.acceptMore(600);
  // Its replacement knows the webhook from the copy in DATA_DIR, so it listens during the outage.
  await until(() => weir.events('process_up').length > 2, eventually);
  expect(sender.refusals).toEqual([]);

  await fresh!.restore();
  await until(async () => (await readiness(weir.port))?.checks.database === 'ok', eventually);
  await sender.acceptMore(200);
  await expectEachStoredOnce();
  expect(sender.refusals).toEqual([]);
  await until(async () => (await weir.metric('weir_spool_events')) === 0, eventually);
  await until(() => weir.events('spool_drained').length > 0, eventually);
  await until(async () => (await weir.servingPids()).length === 2, eventually);
});

test('the primary killed while it spools, and while it drains', { timeout: TEST_MS }, async () => {
  await startWithOwnDatabase();
  await startLoad();
  await fresh!.cutOff();
  await sender.acceptMore(600);
  await killWeir();
  await fresh!.restore();

  // The drain is held in the middle of a transaction.
  const held = fresh!.database.transaction(async (query) => {
    await query({ text: 'lock table events in share mode' });
    await startWithOwnDatabase();
    const waiting = `select from pg_stat_activity where application_name = 'weir-spool' and wait_event_type = 'Lock'`;
    await until(async () => (await query({ text: waiting })).length > 0, eventually);
    expect((await filesOfSpool()).some((name) => name.endsWith('.draining'))).toBe(true);
    await killWeir();
  });
  await held;
  await startWithOwnDatabase();
  await expectEachStoredOnce();
});

async function killWeir(): Promise<void> {
  const processes = await weir.servingPids();
  kill(weir.pid, 'SIGKILL');
  await until(async () => (await Promise.all([weir.pid, ...processes].map(isGone))).every(Boolean), eventually);
  await sender.stop();
  await weir.forget();
}

test('Postgres frozen, and killed during the drain', { timeout: TEST_MS }, async () => {
  weir = await startWeir({ INGEST_SPOOL_DIR: spoolDir });
  await startLoad();
  const { postmaster, backends } = (await postgresPids(weir.dataDir))!;
  const frozen = [postmaster, ...backends];
  for (const pid of frozen) kill(pid, 'SIGSTOP');
  await sender.acceptMore(600);
  await until(async () => (await readiness(weir.port))?.checks.database === 'spooling', eventually);
  for (const pid of frozen) kill(pid, 'SIGCONT');
  await until(async () => (await weir.metric('weir_spool_events_drained_total')) > 0, eventually);
  kill((await postgresPids(weir.dataDir))!.postmaster, 'SIGKILL');
  await sender.acceptMore(300);
  await until(async () => (await readiness(weir.port))?.checks.database === 'ok', eventually);
  await sender.acceptMore(100);
  expect(sender.refusals).toEqual([]);
  expect(sender.losses).toEqual([]);
  await expectEachStoredOnce();
});

test('a full spool refuses events, keeps what it has, and drains', { timeout: TEST_MS }, async () => {
  await startWithOwnDatabase();
  const webhook = await weir.addWebhook();
  sender = startSender({ port: weir.port, ...webhook, bodyBytes: 200_000, lanes: 8 });
  await sender.acceptMore(20);
  await fresh!.cutOff();
  await until(() => sender.refusals.length > 20, eventually);
  expect(new Set(sender.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
  const answer = await until(async () => {
    const found = await readiness(weir.port);
    return found?.status === 503 && found;
  }, eventually);
  expect(answer.checks.database).toBe('failing');
  expect(await weir.metric('weir_spool_bytes')).toBeLessThanOrEqual(16_777_216);
  expect(await weir.metric('weir_spool_events')).toBeGreaterThan(40);
  await fresh!.restore();
  await expectEachStoredOnce();
});

test.runIf(canMount)(
  `a full disk of the spool${skippedNote}: events are refused, and what was answered is stored`,
  {
    timeout: TEST_MS,
  },
  async () => {
    // Smaller than INGEST_SPOOL_BYTES_MAX may be.
    unmount = mountSmallDisk(spoolDir, '6m', 0o711);
    await startWithOwnDatabase();
    sender = startSender({ port: weir.port, ...(await weir.addWebhook()), bodyBytes: 100_000, lanes: 8 });
    await sender.acceptMore(20);
    await fresh!.cutOff();
    await until(() => sender.refusals.length > 20, eventually);
    expect(new Set(sender.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
    await until(async () => (await readiness(weir.port))?.status === 503, eventually);
    await until(() => weir.events('spool_failed').some(({ reason }) => /ENOSPC/.test(String(reason))), eventually);
    expect(await weir.metric('weir_spool_events')).toBeGreaterThan(5);
    await fresh!.restore();
    // Room is found as soon as files are drained.
    await until(async () => (await readiness(weir.port))?.checks.database === 'ok', eventually);
    await expectEachStoredOnce();
  },
);
