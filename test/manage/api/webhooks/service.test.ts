import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { problem } from '../../../../server/base/http/problem.ts';
import { startTestApp, type TestApp, type TestWebhook } from '../../../helpers/app.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { until } from '../../../helpers/wait.ts';
import { made, newWebhook } from '../../../helpers/webhooks.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp();
});
afterAll(() => app.stop());

const statusOf = async (webhook: TestWebhook, secret = webhook.secret) =>
  (await fetch(webhook.url, signedRequest({ secret }))).status;

describe('the first request after a change', () => {
  test('sees a new webhook', async () => {
    expect(await statusOf(await app.addWebhook())).toBe(202);
  });

  test('sees a webhook that was requested before it existed', async () => {
    const id = randomUUID();
    const future = { id, path: `/in/${id}`, url: `${app.url}/in/${id}`, secret: null };
    expect(await statusOf(future)).toBe(404);
    await app.database.query({ text: 'insert into webhooks (id, name) values ($1, $2)', values: [id, 'by hand'] });
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

  test('sees a new secret', async () => {
    const webhook = await app.addWebhook({ secret: 'the first' });
    expect(await app.webhooks.rotate(webhook.id, { secret: 'the second', overlap_seconds: 0 })).toMatchObject({
      kind: 'done',
    });
    expect([await statusOf(webhook, 'the second'), await statusOf(webhook, 'the first')]).toEqual([202, 403]);
  });

  test('sees the first secret of a webhook', async () => {
    const webhook = await app.addWebhook({ secret: null });
    expect(await statusOf(webhook)).toBe(202);
    await app.webhooks.rotate(webhook.id, { secret: 'the first', overlap_seconds: 60 });
    expect([await statusOf(webhook), await statusOf(webhook, 'the first')]).toEqual([403, 202]);
  });
});

test('a change made while the listener was disconnected is seen after it reconnects', async () => {
  const webhook = await app.addWebhook();
  await app.database.query({
    text: `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-listener' and datname = current_database()`,
  });
  await app.database.query({ text: 'update webhooks set enabled = false where id = $1', values: [webhook.id] });
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
    await app.database.query({
      text: `update webhook_secrets set sealed = (select sealed from webhook_secrets where webhook_id = $2)
             where webhook_id = $1 and slot = 'current'`,
      values: [webhook.id, other.id],
    });
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

describe('a change of an unknown webhook', () => {
  test.each([
    ['enable', (id: string) => app.webhooks.update(id, { enabled: true })],
    ['rotate', (id: string) => app.webhooks.rotate(id, { secret: 'secret', overlap_seconds: 0 })],
    ['remove', (id: string) => app.webhooks.remove(id)],
  ])('%s reports it', async (_what, change) => {
    expect(await change(randomUUID())).toEqual(problem('webhook_unknown'));
    const removed = await app.addWebhook();
    await app.webhooks.remove(removed.id);
    expect(await change(removed.id)).toEqual(problem('webhook_unknown'));
  });
});

test('a new webhook is returned without its secret', async () => {
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
    signature_scheme: 'sha256',
    scheme_definition: null,
    tolerance_seconds: null,
    public_key: null,
    has_verify_token: false,
    signature_header: 'x-own',
    dedupe_header: 'x-once',
    event_type_from: null,
    max_payload_bytes: null,
    rate_limit_max: null,
    retention_days: null,
    answer: null,
    refused_status: null,
    expect_every_seconds: null,
    agent_ids: [],
    cell: 0,
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
