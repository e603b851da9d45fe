import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp, type TestWebhook } from '../helpers/app.ts';
import { signedRequest } from '../helpers/requests.ts';
import { until } from '../helpers/wait.ts';
import { made, newWebhook } from '../helpers/webhooks.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp();
});
afterAll(() => app.stop());

const statusOf = async (webhook: TestWebhook, secret = webhook.secret) =>
  (await fetch(webhook.url, signedRequest({ secret }))).status;

describe('the request right after a change', () => {
  test('meets a new webhook', async () => {
    expect(await statusOf(await app.addWebhook())).toBe(202);
  });

  test('meets a webhook that it asked for before there was one', async () => {
    const id = randomUUID();
    const unborn = { id, path: `/in/${id}`, url: `${app.url}/in/${id}`, secret: null };
    expect(await statusOf(unborn)).toBe(404);
    await app.database.query({ text: 'insert into webhooks (id, name) values ($1, $2)', values: [id, 'by hand'] });
    await until(async () => (await statusOf(unborn)) === 202);
  });

  test('meets a webhook that is disabled, enabled again, and removed', async () => {
    const webhook = await app.addWebhook();
    expect(await app.webhooks.update(webhook.id, { enabled: false })).toMatchObject({ kind: 'done' });
    expect(await statusOf(webhook)).toBe(410);
    expect(await app.webhooks.update(webhook.id, { enabled: true })).toMatchObject({ kind: 'done' });
    expect(await statusOf(webhook)).toBe(202);
    expect(await app.webhooks.remove(webhook.id)).toMatchObject({ kind: 'done' });
    expect(await statusOf(webhook)).toBe(404);
  });

  test('meets a new secret', async () => {
    const webhook = await app.addWebhook({ secret: 'the first' });
    expect(await app.webhooks.rotate(webhook.id, { secret: 'the second', overlap_seconds: 0 })).toMatchObject({
      kind: 'done',
    });
    expect([await statusOf(webhook, 'the second'), await statusOf(webhook, 'the first')]).toEqual([202, 403]);
  });

  test('meets a webhook that got its first secret', async () => {
    const webhook = await app.addWebhook({ secret: null });
    expect(await statusOf(webhook)).toBe(202);
    await app.webhooks.rotate(webhook.id, { secret: 'the first', overlap_seconds: 60 });
    expect([await statusOf(webhook), await statusOf(webhook, 'the first')]).toEqual([403, 202]);
  });
});

test('a change made while the listener was away is met once it is back', async () => {
  const webhook = await app.addWebhook();
  await app.database.query({
    text: `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-listener' and datname = current_database()`,
  });
  await app.database.query({ text: 'update webhooks set enabled = false where id = $1', values: [webhook.id] });
  await until(async () => (await statusOf(webhook)) === 410);
});

test('a secret that no key opens is no secret to go without', async () => {
  const webhook = await app.addWebhook();
  const other = await app.addWebhook();
  // A ciphertext moved from another row.
  await app.database.query({
    text: `update webhook_secrets set sealed = (select sealed from webhook_secrets where webhook_id = $2) where webhook_id = $1`,
    values: [webhook.id, other.id],
  });
  await until(async () => (await statusOf(webhook)) === 404);
  expect(app.logLines.some((line) => line.includes('secret_unreadable') && line.includes(webhook.id))).toBe(true);
});

describe('a change of a webhook that is not there', () => {
  test.each([
    ['enable', (id: string) => app.webhooks.update(id, { enabled: true })],
    ['rotate', (id: string) => app.webhooks.rotate(id, { secret: 'secret', overlap_seconds: 0 })],
    ['remove', (id: string) => app.webhooks.remove(id)],
  ])('%s tells so', async (_what, change) => {
    expect(await change(randomUUID())).toEqual({ kind: 'unknown' });
    const removed = await app.addWebhook();
    await app.webhooks.remove(removed.id);
    expect(await change(removed.id)).toEqual({ kind: 'unknown' });
  });
});

test('a new webhook is told as people see it, never with its secret', async () => {
  const given = newWebhook({
    name: ' spaced ',
    description: 'two\r\nlines ',
    secret: 'hush-hush',
    signature_header: 'X-Own',
    dedupe_header: 'X-Once',
  });
  const record = made(await app.webhooks.add(given));
  expect(record).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: 'spaced',
    description: 'two\nlines',
    enabled: true,
    has_secret: true,
    previous_secret_expires_at: null,
    signature_header: 'x-own',
    dedupe_header: 'x-once',
    max_payload_bytes: null,
    rate_limit_max: null,
    retention_days: null,
    agent_ids: [],
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    updated_at: record.created_at,
  });
  expect((await app.webhooks.list())[0]).toEqual(record);
  const [row] = await app.database.query<{ sealed: Buffer }>({
    text: 'select sealed from webhook_secrets where webhook_id = $1',
    values: [record.id],
  });
  expect(row!.sealed.includes('hush-hush')).toBe(false);
});
