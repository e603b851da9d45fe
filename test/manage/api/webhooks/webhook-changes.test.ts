import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestApp, type TestWebhook } from '../../../helpers/app.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';
import { made } from '../../../helpers/webhooks.ts';

const app = shared(startTestApp);

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
