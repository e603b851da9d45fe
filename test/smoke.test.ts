/**
 * The failure contract on one Weir, a row a test: what `npm test` runs. Each fault follows on the recovery from the last one.
 * test/faults/ has every variant, for `npm run test:all`.
 */
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentsOf, signIn, TestAgent } from './helpers/agents.ts';
import { isListening, postgresPids, processesOf } from './helpers/processes.ts';
import { type RedisServer, startRedis } from './helpers/redis.ts';
import { RawClient, signatureOf, signedRequest } from './helpers/requests.ts';
import { missing, type Sender, startSender } from './helpers/sender.ts';
import { PATIENCE_MS, until } from './helpers/wait.ts';
import { made } from './helpers/webhooks.ts';
import { kill, readiness, startWeir, type Weir } from './helpers/weir.ts';

/** Few connections: the sender takes its processor time from the processes that start. */
const LANES = 2;

let redis: RedisServer;
/** The directory of Weir: its `.env` and its spool. */
let home: string;
let spoolDir: string;
let weir: Weir;
/** The webhook of the current test. */
let webhook: { id: string; path: string; secret: string };

beforeAll(async () => {
  redis = await startRedis();
  home = await mkdtemp(join(tmpdir(), 'weir-home-'));
  spoolDir = join(home, 'spool');
  await mkdir(spoolDir);
  // The account of the serving processes must reach it.
  for (const path of [home, spoolDir]) await chmod(path, 0o711);
  weir = await startWeir(settings(), { directory: home });
});
afterAll(async () => {
  await weir?.stop();
  await redis.stop();
  await rm(home, { recursive: true });
});

const settings = () => ({
  RATE_LIMIT_BACKEND: 'shared',
  RATE_LIMIT_SHARED_URL: redis.url,
  INGEST_SPOOL_DIR: spoolDir,
  // A busy machine must not fail a start.
  PROCESS_READY_SECONDS: 180,
});

/** Sends to a webhook of its own. */
async function startLoad(): Promise<Sender> {
  webhook = await weir.addWebhook();
  const sender = startSender({ port: weir.port, ...webhook, lanes: LANES });
  await sender.acceptMore(100);
  return sender;
}

/** Every event that was answered 202 is stored once, byte for byte, and nothing is left in the spool. */
async function expectEachStoredOnce(sender: Sender): Promise<void> {
  await sender.stop();
  const files = async () => (await readdir(spoolDir, { recursive: true })).filter((name) => name.includes('/'));
  await until(async () => (await files()).length === 0);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
  const text = 'select (count(*) - count(distinct body))::int as repeated from events where webhook_id = $1';
  expect(await weir.sql(text, webhook.id)).toEqual([{ repeated: 0 }]);
}

const databaseIs = (state: string) => until(async () => (await readiness(weir.port))?.checks.database === state);

test('a process that is killed is replaced, and the others serve', async () => {
  const sender = await startLoad();
  const [killed, other] = await weir.servingPids();
  kill(killed!, 'SIGKILL');
  const after = await until(async () => {
    const pids = await weir.servingPids();
    return pids.length === 2 && !pids.includes(killed!) && pids;
  });
  expect(after[0]).toBe(other);
  await sender.acceptMore(100);
  expect(sender.refusals).toEqual([]);
  await expectEachStoredOnce(sender);
});

test('Redis that is killed limits nothing, and counts again when it is back', async () => {
  const sender = await startLoad();
  await redis.stop();
  await sender.acceptMore(100);
  await until(async () => (await weir.metric('weir_rate_limit_degraded')) > 0);
  expect((await readiness(weir.port))?.status).toBe(200);
  redis = await startRedis({ port: redis.port });
  await until(async () => (await weir.metric('weir_rate_limit_degraded')) === 0);
  expect(sender.refusals).toEqual([]);
  await expectEachStoredOnce(sender);
});

test('Postgres that is killed: 202 from the spool, and each event is stored once', async () => {
  const sender = await startLoad();
  const { postmaster } = (await postgresPids(weir.dataDir))!;
  kill(postmaster, 'SIGKILL');
  await until(async () => (await postgresPids(weir.dataDir))?.postmaster !== postmaster);
  await sender.acceptMore(100);
  await databaseIs('ok');
  await sender.acceptMore(100);
  expect(sender.losses).toEqual([]);
  expect(sender.refusals).toEqual([]);
  await expectEachStoredOnce(sender);
});

test('hostile requests are refused while others are served', async () => {
  const sender = await startLoad();
  const slow = await RawClient.connect(weir.port);
  await slow.send(`POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{`);
  const url = `http://127.0.0.1:${weir.port}${webhook.path}`;
  const statusOf = async (init: RequestInit) => (await fetch(url, { method: 'POST', ...init })).status;
  expect(await statusOf(signedRequest({ secret: 'another secret' }))).toBe(403);
  expect(await statusOf({ body: Buffer.alloc(1_100_000) })).toBe(413);
  expect(await statusOf({ headers: { 'x-large': 'x'.repeat(20_000) }, body: '{}' })).toBe(431);
  await sender.acceptMore(100);
  slow.destroy();
  expect(sender.refusals).toEqual([]);
  await expectEachStoredOnce(sender);
});

test('HUP replaces every process without a failed request', async () => {
  const before = await weir.servingPids();
  const sender = await startLoad();
  weir.signal('SIGHUP');
  await until(() => weir.events('restarted').length === 1, { timeoutMs: 2 * PATIENCE_MS });
  await sender.acceptMore(100);
  expect((await weir.servingPids()).filter((pid) => before.includes(pid))).toEqual([]);
  expect(sender.refusals).toEqual([]);
  expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
  await expectEachStoredOnce(sender);
});

test('an agent gets every event at least once through the kill of its process', async () => {
  webhook = await weir.addWebhook();
  const agents = agentsOf(weir);
  const added = made(await agents.add({ name: 'smoke', webhook_ids: [webhook.id] }));
  const url = `http://127.0.0.1:${weir.port}`;
  const agent = new TestAgent(url, added, await signIn({ url }, added.credential));
  const sender = startSender({ port: weir.port, ...webhook, lanes: LANES });
  await sender.acceptMore(100);
  await sender.stop();
  const claim = () => agent.claim({ max: 50, lease_seconds: 5, wait_seconds: 5 });
  expect(await claim()).not.toEqual([]);
  for (const pid of await weir.servingPids()) kill(pid, 'SIGKILL');
  const seen = new Set<string>();
  await until(async () => {
    // Requests are refused while no process serves, and a lease that was not acknowledged expires.
    const deliveries = await claim().catch(() => []);
    for (const { event } of deliveries) seen.add(event.id);
    await agent.ack(deliveries.map(({ receipt }) => receipt)).catch(() => {});
    return [...sender.accepted.keys()].every((id) => seen.has(id));
  });
});

test('the primary that is killed: the next one finds everything', async () => {
  const sender = await startLoad();
  kill(weir.pid, 'SIGKILL');
  await until(async () => !(await isListening(weir.port)));
  await sender.stop();
  const { dataDir } = weir;
  await weir.forget();
  weir = await startWeir({ ...settings(), DATA_DIR: dataDir }, { directory: home });
  await expectEachStoredOnce(sender);
});

test('settings that a new process refuses leave the old ones serving', async () => {
  const before = await weir.servingPids();
  await writeFile(join(home, '.env'), 'THREADS=many\n');
  weir.signal('SIGHUP');
  await until(() => weir.events('restart_failed').length === 1);
  expect(await weir.servingPids()).toEqual(before);
  const sender = await startLoad();
  expect(sender.refusals).toEqual([]);
  await expectEachStoredOnce(sender);
});

test('TERM answers what was accepted, and leaves nothing behind', async () => {
  const body = JSON.stringify({ slow: 'sender'.repeat(100) });
  const client = await RawClient.connect(weir.port);
  const fields = [`Content-Length: ${body.length}`, `X-Hub-Signature-256: ${signatureOf(webhook.secret, body)}`];
  const head = [`POST ${webhook.path} HTTP/1.1`, 'Host: x', ...fields].join('\r\n');
  await client.send(`${head}\r\n\r\n${body.slice(0, 100)}`);
  await until(async () => (await weir.metric('weir_open_requests')) >= 1);
  weir.signal('SIGTERM');
  await until(() => weir.events('draining').length === 1);
  await client.send(body.slice(100));
  expect(await client.answer()).toMatchObject({ status: 202 });
  expect(await weir.ended).toBe(0);
  expect(await processesOf(weir.dataDir)).toEqual([]);
  expect(await postgresPids(weir.dataDir)).toBeNull();
});
