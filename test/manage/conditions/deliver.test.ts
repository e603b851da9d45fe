import { randomUUID } from 'node:crypto';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { ATTEMPTS_MAX } from '../../../server/manage/conditions/post.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { claimRequest, endRequest, listAlerts } from '../../../server/store/queries/alerts/alerts.ts';
import { ALERT_SECRET, alertsOf, startAlertReceiver } from '../../helpers/alert-receiver.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf } from '../../helpers/settings.ts';
import { ofEach } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const never = new AbortController().signal;
const fresh = ofEach(freshDatabase);
const pools: Database[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});

const run = (text: string, values: unknown[] = []) => fresh.sql(text, ...values);

/** One installation on the database, with a pool of its own. */
function installation(url: string | null) {
  const database = openDatabase(fresh.conninfo, { connectionsMax: 2, applicationName: 'weir-test' });
  pools.push(database);
  const settings = settingsOf({
    ...(url === null ? {} : { ALERT_URL: url, ALERT_SECRET, ALERT_PRIVATE_NETWORKS: 'allow' }),
    PUBLIC_URL: 'https://weir.example',
  });
  const { alerts, lines } = alertsOf(database, settings);
  return { alerts, lines, look: () => alerts.evaluate(Date.now()), send: () => alerts.deliver(never) };
}

/** A silent webhook; `receive` ends its alert. */
async function silentWebhook() {
  const id = randomUUID();
  await run(
    `insert into webhooks (id, name, expect_every_seconds, created_at) values ($1, 'shop', 60, now() - interval '2 hours')`,
    [id],
  );
  const receive = async () => {
    await run('update webhooks set last_event_at = now() where id = $1', [id]);
    await run(`update alerts set calm_since = now() - interval '1 minute' where subject_id = $1`, [id]);
  };
  return { id, receive };
}

const makeDue = () => run(`update alert_requests set next_attempt_at = now() where state = 'pending'`);
const requests = async () => (await listAlerts(fresh.database, null, null, 10)).flatMap((alert) => alert.requests);

test('an alert is sent once when it begins and once when it ends', async () => {
  const receiver = await startAlertReceiver();
  const weir = installation(receiver.url);
  const webhook = await silentWebhook();
  for (let round = 0; round < 3; round++) [await weir.look(), await weir.send()];
  expect(receiver.got.map(({ body }) => body)).toMatchObject([
    {
      type: 'alert.began',
      condition: 'silent',
      subject: { kind: 'webhook', id: webhook.id, name: 'shop' },
      unit: 'seconds',
      threshold: 60,
      ended_at: null,
      url: `https://weir.example/webhooks/${webhook.id}`,
      text: `Alert: Webhook shop has received no event for 2 hours (expected: one every 1 minute). https://weir.example/webhooks/${webhook.id}`,
    },
  ]);
  await webhook.receive();
  for (let round = 0; round < 3; round++) [await weir.look(), await weir.send()];
  expect(receiver.got.map(({ body }) => body.type)).toEqual(['alert.began', 'alert.ended']);
  expect(receiver.got[1]!.body).toMatchObject({
    alert_id: receiver.got[0]!.body.alert_id,
    ended_at: expect.any(String),
  });
  expect(new Set(receiver.got.map(({ id }) => id)).size).toBe(2);
  expect(await requests()).toMatchObject([{ state: 'sent', attempts: 1, last_status: 200 }, { state: 'sent' }]);
  // The path of ALERT_URL may be a secret.
  expect(JSON.stringify(weir.lines)).not.toMatch(/SECRETPATH|whsec/);
});

test('two installations on one database send each request once', async () => {
  const receiver = await startAlertReceiver();
  const both = [installation(receiver.url), installation(receiver.url)];
  for (let webhooks = 0; webhooks < 5; webhooks++) await silentWebhook();
  await Promise.all(both.map(({ look }) => look()));
  await both[0]!.look();
  receiver.status = null;
  const sending = Promise.all(both.map(({ send }) => send()));
  // Each installation holds one request at a time.
  for (let answered = 0; answered < 5; answered++) {
    await until(() => receiver.got.length > answered);
    receiver.got[answered]!.answer(200);
  }
  await sending;
  expect(new Set(receiver.got.map(({ body }) => body.subject.id)).size).toBe(5);
  expect(receiver.got).toHaveLength(5);
});

test('a request that fails is repeated with the same webhook-id, and the end waits for the beginning', async () => {
  const receiver = await startAlertReceiver();
  const weir = installation(receiver.url);
  const webhook = await silentWebhook();
  receiver.status = 500;
  await weir.look();
  await weir.send();
  await run(`update alert_requests set next_attempt_at = now() + interval '1 hour'`);
  await webhook.receive();
  await weir.look();
  await weir.send();
  // Not due yet, and the end is not sent before it.
  expect(receiver.got.map(({ body }) => body.type)).toEqual(['alert.began']);
  receiver.status = 200;
  await makeDue();
  await weir.send();
  expect(receiver.got.map(({ body }) => body.type)).toEqual(['alert.began', 'alert.began', 'alert.ended']);
  expect(receiver.got[1]!.id).toBe(receiver.got[0]!.id);
  expect(receiver.got[1]!.body).toEqual(receiver.got[0]!.body);
  expect(weir.lines.map(([event]) => event)).toEqual([
    'alert_began',
    'alert_send_failed',
    'alert_ended',
    'alert_sent',
    'alert_sent',
  ]);
});

test('a request without a response holds up neither the next evaluation nor a session of the database', async () => {
  // The request does not end by itself.
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(never);
  onTestFinished(() => timeout.mockRestore());
  const receiver = await startAlertReceiver();
  receiver.status = null;
  const weir = installation(receiver.url);
  await silentWebhook();
  await weir.look();
  const sending = weir.send();
  await until(() => receiver.got.length === 1);
  const busy = `select query from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()`;
  expect(await run(busy)).toEqual([]);
  const { id } = await silentWebhook();
  await weir.look();
  expect(weir.lines.filter((line) => line[0] === 'alert_began' && JSON.stringify(line).includes(id))).toHaveLength(1);
  receiver.status = 200;
  receiver.got[0]!.answer(200);
  await sending;
});

test('a request waits for as long as the Retry-After of a 503 asks', async () => {
  const receiver = await startAlertReceiver();
  const weir = installation(receiver.url);
  await silentWebhook();
  Object.assign(receiver, { status: 503, headers: { 'retry-after': '1800' } });
  await weir.look();
  await weir.send();
  const [waits] = await run(`select next_attempt_at > now() + interval '25 minutes' as long from alert_requests`);
  expect([receiver.got.length, waits]).toEqual([1, { long: true }]);
});

test('a machine that ends during a request leaves it to another one, with the same webhook-id', async () => {
  const receiver = await startAlertReceiver();
  receiver.status = null;
  const [first, second] = [installation(receiver.url), installation(receiver.url)];
  await silentWebhook();
  await first.look();
  const sending = first.send();
  await until(() => receiver.got.length === 1);
  // As after kill -9: the claim lasts, and nothing records a result.
  await second.send();
  expect(receiver.got).toHaveLength(1);
  await makeDue();
  receiver.status = 200;
  await second.send();
  expect(receiver.got.map(({ id }) => id)).toEqual([receiver.got[0]!.id, receiver.got[0]!.id]);
  // The late result of the first attempt is ignored.
  receiver.got[0]!.answer(500);
  await sending;
  expect(await requests()).toMatchObject([{ state: 'sent', attempts: 2, last_error: null }]);
});

test.each([
  ['after the last attempt', `attempts = ${ATTEMPTS_MAX - 1}`, 1],
  ['when it is too old', `created_at = now() - interval '25 hours'`, 0],
])('a request is given up %s, with the end of its alert', async (_, change, sends) => {
  const receiver = await startAlertReceiver();
  receiver.status = 503;
  const weir = installation(receiver.url);
  const webhook = await silentWebhook();
  await weir.look();
  await webhook.receive();
  await weir.look();
  await run(`update alert_requests set ${change} where type = 'alert.began'`);
  await weir.send();
  await makeDue();
  await weir.send();
  expect(receiver.got).toHaveLength(sends);
  expect(await requests()).toMatchObject([{ state: 'failed' }, { state: 'failed' }]);
  expect(weir.lines.filter(([event]) => event === 'alert_given_up')).toHaveLength(1);
  const [, counts] = weir.alerts.families() as { values: { labels: { outcome: string }; value: number }[] }[];
  expect(counts!.values.find(({ labels }) => labels.outcome === 'given_up')!.value).toBe(1);
  await weir.look();
  expect(await requests()).toHaveLength(2);
});

test('without ALERT_URL alerts are recorded only; once it is set, active ones are sent and ended ones are not', async () => {
  const receiver = await startAlertReceiver();
  const [silent, sending] = [installation(null), installation(receiver.url)];
  const [over, lasting] = [await silentWebhook(), await silentWebhook()];
  await silent.look();
  await over.receive();
  await silent.look();
  await silent.send();
  expect(await requests()).toEqual([]);
  await sending.look();
  await sending.send();
  expect(receiver.got.map(({ body }) => [body.type, body.subject.id])).toEqual([['alert.began', lasting.id]]);
});

test('an error of a statement is logged once, until requests are sent again', async () => {
  const { send, lines } = installation('https://alerts.example/hook');
  const failure = ['alerts_failed', { reason: 'relation "alert_requests" does not exist' }];
  const rename = (from: string, to: string) => run(`alter table ${from} rename to ${to}`);
  await rename('alert_requests', 'elsewhere');
  await send();
  await send();
  expect(lines).toEqual([failure]);
  await rename('elsewhere', 'alert_requests');
  await send();
  await rename('alert_requests', 'elsewhere');
  await send();
  expect(lines).toEqual([failure, failure]);
});

test('an attempt that ends after a later one has begun changes nothing', async () => {
  const weir = installation('http://127.0.0.1:9');
  const webhook = await silentWebhook();
  await weir.look();
  const frozen = (await claimRequest(fresh.database, 60))!;
  await webhook.receive();
  await weir.look();
  await makeDue();
  const later = (await claimRequest(fresh.database, 60))!;
  expect([later.id, later.attempts]).toEqual([frozen.id, 2]);
  const result = { status: 500, error: 'refused', retrySeconds: 0 };
  await endRequest(fresh.database, frozen, { ...result, state: 'failed' });
  expect(await requests()).toMatchObject([{ state: 'pending' }, { state: 'pending' }]);
  await endRequest(fresh.database, later, { ...result, state: 'failed' });
  expect(await requests()).toMatchObject([
    { state: 'failed', last_error: 'refused' },
    { state: 'failed', last_error: 'the request before it was given up' },
  ]);
});
