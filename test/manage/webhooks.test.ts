import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InputError } from '../../server/manage/input.ts';
import type { NewWebhook } from '../../server/manage/webhooks.ts';
import { startTestApp, type TestApp, type TestWebhook } from '../helpers/app.ts';
import { signedRequest } from '../helpers/requests.ts';
import { until } from '../helpers/wait.ts';

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
    expect(await app.webhooks.setEnabled(webhook.id, false)).toEqual({ kind: 'done', value: null });
    expect(await statusOf(webhook)).toBe(410);
    expect(await app.webhooks.setEnabled(webhook.id, true)).toEqual({ kind: 'done', value: null });
    expect(await statusOf(webhook)).toBe(202);
    expect(await app.webhooks.remove(webhook.id)).toEqual({ kind: 'done', value: null });
    expect(await statusOf(webhook)).toBe(404);
  });

  test('meets a new secret', async () => {
    const webhook = await app.addWebhook({ secret: 'the first' });
    expect(await app.webhooks.rotate(webhook.id, 'the second', 0)).toEqual({ kind: 'done', value: null });
    expect([await statusOf(webhook, 'the second'), await statusOf(webhook, 'the first')]).toEqual([202, 403]);
  });

  test('meets a webhook that got its first secret', async () => {
    const webhook = await app.addWebhook({ secret: null });
    expect(await statusOf(webhook)).toBe(202);
    await app.webhooks.rotate(webhook.id, 'the first', 60);
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
    ['enable', (id: string) => app.webhooks.setEnabled(id, true)],
    ['rotate', (id: string) => app.webhooks.rotate(id, 'secret', 0)],
    ['remove', (id: string) => app.webhooks.remove(id)],
  ])('%s tells so', async (_what, change) => {
    expect(await change(randomUUID())).toEqual({ kind: 'unknown' });
    const removed = await app.addWebhook();
    await app.webhooks.remove(removed.id);
    expect(await change(removed.id)).toEqual({ kind: 'unknown' });
  });
});

describe('a new webhook', () => {
  const usual: NewWebhook = { name: 'a', secret: null, signatureHeader: null, dedupeHeader: null, rateLimitMax: null };

  test('is told as people see it, never with its secret', async () => {
    const record = await app.webhooks.add({
      ...usual,
      name: ' spaced ',
      secret: 'hush-hush',
      signatureHeader: 'X-Own',
      dedupeHeader: 'X-Once',
    });
    expect(record).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'spaced',
      enabled: true,
      has_secret: true,
      previous_secret_expires_at: null,
      signature_header: 'x-own',
      dedupe_header: 'x-once',
      rate_limit_max: null,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    expect((await app.webhooks.list()).at(-1)).toEqual(record);
    const [row] = await app.database.query<{ sealed: Buffer }>({
      text: 'select sealed from webhook_secrets where webhook_id = $1',
      values: [record.id],
    });
    expect(row!.sealed.includes('hush-hush')).toBe(false);
  });

  test.each([
    ['an empty name', { name: ' ' }, /the name/],
    ['a name too long', { name: 'x'.repeat(201) }, /the name/],
    ['an empty secret', { secret: '' }, /the secret/],
    ['a secret too long', { secret: 's'.repeat(1_001) }, /the secret/],
    ['a header name with a blank', { signatureHeader: 'X Own' }, /header name/],
    ['a header name with a colon', { signatureHeader: 'X-Own:' }, /header name/],
    ['an empty header name', { signatureHeader: '' }, /header name/],
    ['a dedupe header with a blank', { dedupeHeader: 'X Once' }, /header name/],
  ])('is refused with %s, and nothing is stored', async (_what, bad, message) => {
    const before = (await app.webhooks.list()).length;
    const refusal = await app.webhooks.add({ ...usual, ...bad }).catch((error) => error);
    expect(refusal).toBeInstanceOf(InputError);
    expect(refusal.message).toMatch(message);
    expect(refusal.message).not.toContain('ssssss');
    expect(await app.webhooks.list()).toHaveLength(before);
  });
});
