/** Shared rate-limit counters: exact over all processes while Redis is available, and no reason to refuse a request otherwise. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../helpers/ports.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { type RedisServer, startRedis } from '../helpers/redis.ts';
import { type Sender, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';
import { kill, PATIENCE_MS, readiness, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 120_000;
const eventually = { timeoutMs: PATIENCE_MS };
const LIMIT = 150;
const password = 'sesame-sesame';

let redis: RedisServer;
let database: FreshDatabase;
let weir: Weir;
/** A limit high enough for all tests. */
let webhook: { path: string; secret: string };

const settings = (url: string) => ({
  DATABASE_URL: database.conninfo,
  SECRETS_KEY: someKey,
  RATE_LIMIT_BACKEND: 'shared',
  RATE_LIMIT_SHARED_URL: url,
  // A day, so that the window never moves during a test.
  RATE_LIMIT_INGEST_WINDOW_SECONDS: 86_400,
});

beforeAll(async () => {
  redis = await startRedis({ password });
  database = await freshDatabase();
  weir = await startWeir(settings(redis.url));
  webhook = await weir.addWebhook();
}, TEST_MS);
afterAll(async () => {
  await weir.stop();
  await database.drop();
  await redis.stop();
}, TEST_MS);

/** Sends on new connections, so that every process gets some; ends after this many responses of any status. */
async function sendMany(to: typeof webhook, answers: number): Promise<Sender> {
  const sender = startSender({ port: weir.port, ...to, keepAlive: false, lanes: 8 });
  await until(() => sender.accepted.size + sender.refusals.length >= answers, eventually);
  await sender.stop();
  expect(sender.losses).toEqual([]);
  return sender;
}

const degraded = async (count: number) =>
  until(async () => (await weir.metric('weir_rate_limit_degraded')) === count, eventually);

/**
 * A fresh webhook with a limit of its own: just so many pass, whichever process they meet. On a busy machine Redis may be late for
 * once; what passes uncounted then is in the metrics, and another webhook is tried.
 */
async function expectExactCount(tries = 5): Promise<typeof webhook> {
  const limited = await weir.addWebhook(LIMIT);
  const uncounted = () => weir.metric('weir_requests_uncounted_total');
  const before = await uncounted();
  const { accepted, refusals, answeredBy } = await sendMany(limited, 2 * LIMIT);
  if (accepted.size > LIMIT && tries > 1) {
    await until(async () => (await uncounted()) > before, eventually);
    await degraded(0);
    return expectExactCount(tries - 1);
  }
  expect(answeredBy.size).toBe(2);
  expect(accepted.size).toBe(LIMIT);
  expect(new Set(refusals.map(({ status, code }) => `${status} ${code}`))).toEqual(new Set(['429 rate_limited']));
  return limited;
}

test('Redis killed under load: no request is refused, and readyz is degraded but ready', {
  timeout: TEST_MS,
}, async () => {
  const limited = await expectExactCount();
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(300);
  await redis.stop();
  await degraded(2);
  await sender.acceptMore(300);
  await sender.stop();
  expect(sender.refusals).toEqual([]);
  expect(sender.losses).toEqual([]);
  expect(await readiness(weir.port)).toMatchObject({ status: 200, checks: { rate_limit_store: 'degraded' } });
  // A client over its limit is allowed as well.
  expect((await sendMany(limited, 20)).refusals).toEqual([]);
  await until(() => weir.events('rate_limit_store').length > 0, eventually);
  expect(weir.lines.filter((line) => line.includes(password))).toEqual([]);
});

test('a process that exits during the outage is replaced by one that starts degraded', {
  timeout: TEST_MS,
}, async () => {
  const [victim] = await weir.servingPids();
  kill(victim!, 'SIGKILL');
  await until(async () => {
    const pids = await weir.servingPids();
    return pids.length === 2 && !pids.includes(victim!);
  }, eventually);
  await degraded(2);
  expect((await sendMany(webhook, 50)).refusals).toEqual([]);
});

test('after recovery the processes count together again', { timeout: TEST_MS }, async () => {
  // Stopped above, unless that test failed.
  await redis.stop();
  redis = await startRedis({ port: redis.port, password });
  await degraded(0);
  await expectExactCount();
});

test('a start without Redis is refused with one sentence without credentials', { timeout: TEST_MS }, async () => {
  const url = `redis://someone:${password}@127.0.0.1:${await freePort()}`;
  const refusal = await startWeir({ ...settings(url), RATE_LIMIT_WAIT_SECONDS: 0 }).then(
    () => '',
    (error: Error) => error.message,
  );
  expect(refusal).toMatch(/ended with 1: weir: RATE_LIMIT_SHARED_URL .* cannot be used: .*ECONNREFUSED/);
  expect(refusal).not.toContain(password);
  expect(refusal).not.toContain('someone');
});
