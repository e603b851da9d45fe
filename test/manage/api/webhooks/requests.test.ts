/** GET /api/v1/webhooks/{id}/requests: each request to a webhook with its answer and reason, and exact counts. */
import { expect, test } from 'vitest';
import { uuidText, uuidv7 } from '../../../../server/store/ids.ts';
import { STATUS_KEPT_MAX, storeRequestSamples } from '../../../../server/store/queries/rejections/ring.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(() => startTestApp({ WEBHOOK_MAX_PAYLOAD_BYTES: 1_000 }));
const viewer = shared(() => addPerson(app, 'viewer'));

interface Listed {
  items: {
    id: string;
    status: number;
    reason: string | null;
    fix: string | null;
    event_id?: string;
    rejection_id?: string;
  }[];
  next_cursor: string | null;
  step: number;
  counts: Record<string, number>[];
}
const requestsOf = async (id: string, query = ''): Promise<Listed> =>
  (await viewer.api('GET', `/api/v1/webhooks/${id}/requests${query}`)).body;
const sum = ({ counts }: Listed, name: string) => counts.reduce((total, point) => total + point[name]!, 0);

test('accepted, duplicate and refused requests stand side by side, also those of an outage, with counts by minute', async () => {
  const webhook = await app.addWebhook({ dedupe_header: 'X-Id' });
  const send = (request: RequestInit) => fetch(webhook.url, request).then((response) => response.status);
  const signed = (id: string) => signedRequest({ secret: webhook.secret, headers: { 'X-Id': id } });
  const answers = [await send(signed('1')), await send(signed('1')), await send({ method: 'POST', body: 'x' })];
  answers.push(await send({ method: 'POST', body: 'x'.repeat(1_001) }));
  await app.webhooks.update(webhook.id, { enabled: false });
  answers.push(await send(signed('2')));
  await app.webhooks.update(webhook.id, { enabled: true });
  await app.cutOff();
  answers.push(await send(signed('3')), await send({ method: 'POST', body: 'y' }));
  await app.restore();
  await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  // The last is refused by its signature only while the directory from before the outage is still trusted.
  const last = answers.at(-1)!;
  expect([403, 503]).toContain(last);
  expect(answers.slice(0, -1)).toEqual([202, 200, 403, 413, 410, 503]);

  await until(async () => (await requestsOf(webhook.id)).items.length === 7);
  const { items, ...rest } = await requestsOf(webhook.id);
  expect(items.map(({ status, reason }) => [status, reason])).toEqual([
    [last, last === 403 ? 'header_missing' : 'database_unavailable'],
    [503, 'database_unavailable'],
    [410, 'webhook_disabled'],
    [413, 'payload_too_large'],
    [403, 'header_missing'],
    [200, 'duplicate'],
    [202, null],
  ]);
  const [accepted, duplicate, rejected, tooLarge] = items.toReversed();
  expect(accepted).toMatchObject({ event_id: accepted!.id, fix: null, bytes: 17, client: '127.0.0.1' });
  expect(duplicate).toMatchObject({ event_id: accepted!.id, fix: null });
  expect(rejected).toMatchObject({ rejection_id: rejected!.id, fix: expect.stringContaining('carries no signature') });
  expect(tooLarge).toMatchObject({ bytes: 1_001, fix: expect.stringContaining('WEBHOOK_MAX_PAYLOAD_BYTES') });
  expect(rest).toMatchObject({ next_cursor: null, step: 60 });

  const first = await requestsOf(webhook.id, '?limit=3');
  const second = await requestsOf(webhook.id, `?limit=5&cursor=${first.next_cursor}`);
  expect([...first.items, ...second.items]).toEqual(items);
  for (const [status, count] of [
    [202, 1],
    [403, last === 403 ? 2 : 1],
    [503, last === 503 ? 2 : 1],
    [429, 0],
  ] as const)
    expect((await requestsOf(webhook.id, `?status=${status}`)).items).toHaveLength(count);
  await until(async () => sum(await requestsOf(webhook.id), 'disabled') === 1);
  const counted = await requestsOf(webhook.id);
  for (const [name, count] of Object.entries({
    accepted: 1,
    duplicates: 1,
    rejected: last === 403 ? 2 : 1,
    too_large: 1,
    unavailable: last === 503 ? 2 : 1,
    limited: 0,
  }))
    expect([name, sum(counted, name)]).toEqual([name, count]);
});

test('a flood leaves a bounded number of samples and an exact count', async () => {
  const webhook = await app.addWebhook({ rate_limit_max: 1 });
  const statuses = await Promise.all(
    Array.from({ length: 30 }, () => fetch(webhook.url, { method: 'POST', body: 'x' }).then(({ status }) => status)),
  );
  const limited = statuses.filter((status) => status === 429).length;
  await until(async () => sum(await requestsOf(webhook.id), 'limited') === limited);
  // 10 in each minute, of which the flood may touch two.
  await until(async () => (await requestsOf(webhook.id, '?status=429')).items.length >= 10);
  expect((await requestsOf(webhook.id, '?status=429')).items.length).toBeLessThanOrEqual(20);
  expect((await requestsOf(webhook.id, '?status=429')).items[0]).toMatchObject({ reason: 'rate_limited' });

  const sample = {
    webhookId: webhook.id,
    status: 429,
    reason: 'rate_limited',
    client: '::1',
    bytes: null,
    eventId: null,
  };
  for (let round = 0; round < 3; round++)
    await storeRequestSamples(
      app.database,
      Array.from({ length: 150 }, (_, i) => {
        const atMs = Date.now() + round * 1_000 + i;
        return { ...sample, atMs, id: uuidText(uuidv7(atMs, Buffer.alloc(16, i))) };
      }),
    );
  const [row] = await app.sql<{ kept: number }>(
    'select count(*)::int as kept from request_samples where webhook_id = $1',
    webhook.id,
  );
  expect(row!.kept).toBeLessThanOrEqual(STATUS_KEPT_MAX + 150);
});

test.each(['from', 'to'])('%s may be long ago, and the counts are bounded', async (name) => {
  const webhook = await app.addWebhook();
  const { status, body } = await viewer.api(
    'GET',
    `/api/v1/webhooks/${webhook.id}/requests?${name}=0001-01-01T00:00:00Z`,
  );
  expect(status).toBe(200);
  expect(body.counts.length).toBeLessThanOrEqual(1_500);
});
