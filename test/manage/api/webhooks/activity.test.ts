/** Last requests to webhooks, what their events occupy, and the first request after a change. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../../server/base/time/durations.ts';
import { addHistory } from '../../../../server/store/queries/webhooks/history.ts';
import { subtractRemovedUsage } from '../../../../server/store/queries/webhooks/usage.ts';
import { startTestApp, type TestWebhook } from '../../../helpers/app.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { addPerson } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';
import { made } from '../../../helpers/webhooks.ts';

const app = shared(startTestApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const paths = ['', '/batch'];
/** By the rest of the path: the webhook that a request was sent to, and its ETag before. */
const sent = new Map<string, { webhook: TestWebhook; tag: string | null }>();
const tagOf = async ({ id }: TestWebhook) => (await viewer.api('GET', `/api/v1/webhooks/${id}`)).headers.get('etag');
beforeAll(async () => {
  // A last event is written within 5 s: all of them are sent first, and the tests then wait together.
  for (const path of paths) {
    const webhook = await app.addWebhook();
    const tag = await tagOf(webhook);
    expect((await send(webhook, webhook.secret, path)).status).toBe(202);
    sent.set(path, { webhook, tag });
  }
});

const PATH = '/api/v1/webhooks/activity';
const of = async (...ids: string[]) => (await viewer.api('GET', `${PATH}?webhook_ids=${ids.join(',')}`)).body.items;
const send = (webhook: TestWebhook, secret = webhook.secret, path = '') =>
  fetch(webhook.url + path, signedRequest({ secret, body: '{"a":1}' }));

test('a webhook without requests has no last event and no last rejection', async () => {
  const { id } = await app.addWebhook();
  expect(await of(id)).toEqual([
    { webhook_id: id, last_event_at: null, last_rejection_at: null, events_removed_before: null },
  ]);
});

test.each(paths)('a request to /in/{webhook_id}%s sets the last event and does not change the ETag', async (path) => {
  const { webhook, tag } = sent.get(path)!;
  await until(async () => (await of(webhook.id))[0].last_event_at !== null);
  const [{ last_event_at: at }] = await of(webhook.id);
  expect(Math.abs(Date.now() - Date.parse(at))).toBeLessThan(60_000);
  expect(await tagOf(webhook)).toBe(tag);
});

test('a refused signature sets the last rejection, not the last event', async () => {
  const webhook = await app.addWebhook();
  expect((await send(webhook, 'a wrong secret')).status).toBe(403);
  await until(async () => (await of(webhook.id))[0].last_rejection_at !== null);
  expect((await of(webhook.id))[0].last_event_at).toBeNull();
});

test.each(['?webhook_ids=', '?webhook_ids=somewhere', `?webhook_ids=${Array(201).fill(randomUUID()).join(',')}`])(
  'invalid ids are refused: %.30s',
  async (query) => {
    expect((await viewer.api('GET', PATH + query)).status).toBe(422);
  },
);

const usageOf = async (...ids: string[]) =>
  (await viewer.api('GET', `/api/v1/webhooks/usage?webhook_ids=${ids.join(',')}`)).body;
const count = ({ id }: TestWebhook, minuteMs: number, accepted: number, bytes: number) =>
  addHistory(app.database, [{ webhookId: id, minuteMs, accepted, bytes }]);
const hourOf = (ms: number) => new Date(Math.floor(ms / HOUR_MS) * HOUR_MS).toISOString();

test('sent events appear with their bytes and their hour', async () => {
  const webhook = await app.addWebhook({ name: 'sent' });
  expect((await usageOf(webhook.id)).items).toEqual([
    { webhook_id: webhook.id, name: 'sent', events: 0, bytes: 0, oldest_at: null },
  ]);
  const startedMs = Date.now();
  for (const body of ['12345', '1234567'])
    expect((await fetch(webhook.url, signedRequest({ secret: webhook.secret, body }))).status).toBe(202);
  await until(async () => (await usageOf(webhook.id)).items[0].events === 2);
  const { items, tables } = await usageOf(webhook.id);
  expect(items).toMatchObject([{ events: 2, bytes: 12 }]);
  expect([hourOf(startedMs), hourOf(Date.now())]).toContain(items[0].oldest_at);
  expect(tables.events).toBeGreaterThan(8_192);
  expect(tables.deliveries).toBeGreaterThan(8_192);
});

test('what retention has removed is not counted, most bytes come first', async () => {
  const [all, own] = [await app.addWebhook({ name: 'all' }), await app.addWebhook({ name: 'own' })];
  const nowMs = Date.now();
  for (const webhook of [all, own]) {
    await count(webhook, nowMs - 40 * DAY_MS, 1000, 9_000_000);
    await count(webhook, nowMs - 20 * DAY_MS, 10, 5_000);
    await count(webhook, nowMs - 2 * DAY_MS, 3, 600);
  }
  await app.sql(
    'update webhooks set events_removed_before = $2 where id = $1',
    own.id,
    new Date(nowMs - 5 * DAY_MS).toISOString(),
  );
  await subtractRemovedUsage(app.database, { retentionDays: 30, nowMs });
  expect((await usageOf(own.id, all.id)).items).toEqual([
    { webhook_id: all.id, name: 'all', events: 13, bytes: 5_600, oldest_at: hourOf(nowMs - 20 * DAY_MS) },
    { webhook_id: own.id, name: 'own', events: 3, bytes: 600, oldest_at: hourOf(nowMs - 2 * DAY_MS) },
  ]);
});

test('the command and the pages show the same', async () => {
  const webhook = await app.addWebhook({ name: 'shown' });
  await count(webhook, Date.now() - DAY_MS, 1_234, 5_600_000);
  const { items, tables } = await weirJson(app, 'webhook', 'usage');
  expect(items).toContainEqual((await usageOf(webhook.id)).items[0]);
  expect(tables.events).toBeGreaterThan(0);
  const { out } = await weir(app, 'webhook', 'usage');
  expect(out).toMatch(new RegExp(`^shown +1234 +5\\.6 MB +20\\S+ +${webhook.id}$`, 'm'));
  expect(out).toMatch(/On disk, with indexes: events .*, deliveries .*\.$/m);
  for (const page of ['/webhooks', `/webhooks/${webhook.id}/settings`])
    expect((await viewer.browse('GET', page)).text).toContain('1,234 events, 5.6 MB');
});

const statusOf = async (webhook: TestWebhook, secret = webhook.secret) =>
  (await fetch(webhook.url, signedRequest({ secret }))).status;

describe('the first request after a change', () => {
  test('sees a webhook that was requested before it existed', async () => {
    const id = randomUUID();
    const future = { id, path: `/in/${id}`, url: `${app.url}/in/${id}`, secret: null };
    expect(await statusOf(future)).toBe(404);
    await app.sql('insert into webhooks (id, name) values ($1, $2)', id, 'by hand');
    await until(async () => (await statusOf(future)) === 202);
  });

  test('sees a webhook that is disabled, enabled again, and deleted', async () => {
    const webhook = await app.addWebhook();
    expect(await app.webhooks.update(webhook.id, { enabled: false })).toMatchObject({ kind: 'done' });
    expect(await statusOf(webhook)).toBe(410);
    expect(await app.webhooks.update(webhook.id, { enabled: true })).toMatchObject({ kind: 'done' });
    expect(await statusOf(webhook)).toBe(202);
    expect(await app.webhooks.remove(webhook.id)).toMatchObject({ kind: 'done' });
    expect(await statusOf(webhook)).toBe(404);
  });
});

test('a change made while the listener was disconnected is seen after it reconnects', async () => {
  const webhook = await app.addWebhook();
  await app.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-listener' and datname = current_database()`,
  );
  await app.sql('update webhooks set enabled = false where id = $1', webhook.id);
  await until(async () => (await statusOf(webhook)) === 410);
});

describe('a stored secret that no key decrypts', () => {
  /** Status and code of the response, and Retry-After if present. */
  const sent = async (webhook: TestWebhook, secret = webhook.secret) => {
    const answer = await fetch(webhook.url, signedRequest({ secret }));
    const { code } = (await answer.json()) as { code?: string };
    return [answer.status, code, answer.headers.get('retry-after')];
  };
  const unavailable = [503, 'secret_unavailable', '60'];
  const checks = async () => {
    const answer = await fetch(`${app.url}/readyz`);
    const { checks } = (await answer.json()) as { checks: Record<string, string> };
    return [answer.status, checks.secrets];
  };
  /** Copies the ciphertext of another row. */
  const breakSecret = async (webhook: TestWebhook) => {
    const other = await app.addWebhook();
    await app.sql(
      `update webhook_secrets set sealed = (select sealed from webhook_secrets where webhook_id = $2)
             where webhook_id = $1 and slot = 'current'`,
      webhook.id,
      other.id,
    );
    await until(async () => (await app.metric('weir_webhooks_secret_unavailable')) === 1);
  };

  test('is answered with a retryable error for any signature, and reported to the operator', async () => {
    const webhook = await app.addWebhook();
    expect(await checks()).toEqual([200, 'ok']);
    await breakSecret(webhook);
    expect(await sent(webhook)).toEqual(unavailable);
    expect(await sent(webhook, 'another')).toEqual(unavailable);
    expect(await sent(webhook, null)).toEqual(unavailable);
    expect(await checks()).toEqual([200, 'degraded']);
    const lines = app.logLines.filter((line) => line.includes('secret_unreadable') && line.includes(webhook.id));
    expect(lines).toHaveLength(1);
    await app.webhooks.remove(webhook.id);
    expect([await app.metric('weir_webhooks_secret_unavailable'), await checks()]).toEqual([0, [200, 'ok']]);
  });

  test('beside a new secret that decrypts: the new one verifies, and other signatures get a retryable error during the overlap', async () => {
    const webhook = await app.addWebhook({ secret: 'lost' });
    await breakSecret(webhook);
    const rotate = (secret: string, overlap_seconds: number) =>
      app.webhooks.rotate(webhook.id, { secret, overlap_seconds });
    made(await rotate('new', 3_600));
    const before = await app.metric('weir_signatures_verified_total');
    expect(await sent(webhook, 'new')).toEqual([202, undefined, null]);
    expect(await sent(webhook, 'lost')).toEqual(unavailable);
    expect(await sent(webhook, null)).toEqual([403, 'signature_missing', null]);
    expect(await app.metric('weir_signatures_verified_total')).toBe(before + 1);
    made(await rotate('newest', 0));
    expect(await sent(webhook, 'newest')).toEqual([202, undefined, null]);
    expect(await sent(webhook, 'lost')).toEqual([403, 'signature_mismatch', null]);
  });

  test('beside a previous secret that decrypts: the previous one verifies', async () => {
    const webhook = await app.addWebhook({ secret: 'old' });
    made(await app.webhooks.rotate(webhook.id, { secret: 'lost', overlap_seconds: 3_600 }));
    await breakSecret(webhook);
    expect(await sent(webhook, 'old')).toEqual([202, undefined, null]);
    expect(await sent(webhook, 'lost')).toEqual(unavailable);
    await app.webhooks.remove(webhook.id);
  });
});
