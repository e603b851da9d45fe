/** Counts of requests by webhook and by time, and outages. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../../server/base/time/durations.ts';
import type { Outage } from '../../../../server/model/issues.ts';
import { addOutages, deleteOldIssues } from '../../../../server/store/queries/alerts/issues.ts';
import { addHistory, deleteOldHistory, type HistoryRow } from '../../../../server/store/queries/webhooks/history.ts';
import { startTestApp, type TestApp, type TestWebhook } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startTestApp);
const viewer = shared(() => addPerson(app, 'viewer'));

const read = async (query: Record<string, string | number>) => {
  const text = new URLSearchParams(
    Object.entries(query).map(([name, value]) => [name, String(value)] as [string, string]),
  );
  return viewer.api('GET', `/api/v1/history?${text}`);
};
const iso = (ms: number) => new Date(ms).toISOString();
const row = ({ id: webhookId }: TestWebhook, minuteMs: number, counts: Partial<HistoryRow>): HistoryRow => ({
  webhookId,
  minuteMs,
  ...counts,
});

describe('requests are counted by webhook', () => {
  const host = shared(startTestApp);
  let own: TestApp;

  test('and written when the process drains', async () => {
    own = await startTestApp({}, host);
    const webhook = await own.addWebhook({ dedupe_header: 'x-id', rate_limit_max: 8 });
    const { secret } = webhook;
    const body = '{"a":1}';
    const send = (given: { secret: string | null; id?: string; path?: string; body?: string }) => {
      const request = signedRequest({ secret: given.secret, body: given.body ?? body });
      const headers = { ...(request.headers as Record<string, string>), ...(given.id ? { 'x-id': given.id } : {}) };
      return fetch(webhook.url + (given.path ?? ''), { ...request, headers });
    };
    const statuses = [];
    for (const id of ['1', '1', '2']) statuses.push((await send({ secret, id })).status);
    statuses.push((await send({ secret, path: '/batch', body: '{}\n[1]\n' })).status);
    statuses.push((await send({ secret, id: 'batch', path: '/batch', body: '{}\n[1]\n' })).status);
    statuses.push((await send({ secret, id: 'batch', path: '/batch', body: '{}\n[1]\n' })).status);
    for (let i = 0; i < 2; i++) statuses.push((await send({ secret: 'wrong' })).status);
    statuses.push((await send({ secret })).status);
    expect(statuses).toEqual([202, 200, 202, 202, 202, 200, 403, 403, 429]);
    await own.stop();
    const reader = await addPerson(host, 'viewer');
    const { body: all } = await reader.api('GET', `/api/v1/history?webhook_id=${webhook.id}&step=86400`);
    const sum = (name: string) =>
      all.points.reduce((total: number, point: Record<string, number>) => total + point[name]!, 0);
    expect(
      Object.fromEntries(['accepted', 'duplicates', 'rejected', 'limited', 'bytes'].map((name) => [name, sum(name)])),
    ).toEqual({
      accepted: 6,
      duplicates: 3,
      rejected: 2,
      limited: 1,
      bytes: 2 * body.length + 2 * 5,
    });
  });

  test('and by the status of a refusal', async () => {
    own = await startTestApp({ WEBHOOK_MAX_PAYLOAD_BYTES: 10 }, host);
    const [webhook, off] = [await own.addWebhook(), await own.addWebhook({ enabled: false })];
    const statusOf = async (url: string, body: string) =>
      (await fetch(url, signedRequest({ secret: webhook.secret, body }))).status;
    // A stored request makes the process know the webhook.
    const statuses = [await statusOf(webhook.url, '{"a":1}'), await statusOf(webhook.url, '{"a":"long"}')];
    const stream = { method: 'POST', duplex: 'half', body: new Blob(['{}']).stream() } as RequestInit;
    statuses.push((await fetch(webhook.url, stream)).status);
    for (let i = 0; i < 2; i++) statuses.push(await statusOf(off.url, '{"a":1}'));
    await host.cutOff();
    statuses.push(await statusOf(webhook.url, '{"a":1}'));
    await host.restore();
    await own.stop();
    expect(statuses).toEqual([202, 413, 411, 410, 410, 503]);
    const reader = await addPerson(host, 'viewer');
    const counts = async ({ id }: TestWebhook) =>
      (await reader.api('GET', `/api/v1/history?webhook_id=${id}&step=86400`)).body.points.at(-1);
    expect(await counts(webhook)).toMatchObject({ accepted: 1, too_large: 1, length_required: 1, unavailable: 1 });
    expect(await counts(off)).toMatchObject({ disabled: 2 });
  });
});

describe('the history', () => {
  test('has a point for each step, also without requests, and the sum of all webhooks', async () => {
    const [one, other] = [await app.addWebhook(), await app.addWebhook()];
    const hourMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 3 * HOUR_MS;
    await addHistory(app.database, [
      row(one, hourMs, { accepted: 3, bytes: 30 }),
      row(one, hourMs + MINUTE_MS, { accepted: 1 }),
      row(other, hourMs + HOUR_MS, { rejected: 2 }),
    ]);
    await addHistory(app.database, [row(one, hourMs, { accepted: 4 })]);
    const span = { from: iso(hourMs), to: iso(hourMs + 3 * HOUR_MS) };
    const hours = (await read({ ...span, step: 3600, webhook_id: one.id })).body;
    expect(hours).toMatchObject({ ...span, step: 3600 });
    expect(hours.points.map((point: { accepted: number }) => point.accepted)).toEqual([8, 0, 0]);
    const all = (await read({ ...span, step: 3600 })).body.points;
    expect(all.map((point: { rejected: number }) => point.rejected)).toEqual([0, 2, 0]);
    expect(all[0]).toMatchObject({ at: iso(hourMs), accepted: 8, bytes: 30 });
    const minutes = (await read({ ...span, step: 60, webhook_id: one.id })).body.points;
    expect(minutes.slice(0, 3).map((point: { accepted: number }) => point.accepted)).toEqual([7, 1, 0]);
    expect(minutes).toHaveLength(180);
  });

  test('starts and ends at a multiple of the step', async () => {
    const { body } = await read({ from: '2026-01-01T10:20:00Z', to: '2026-01-01T12:10:00Z', step: 3600 });
    expect([body.from, body.to]).toEqual(['2026-01-01T10:00:00.000Z', '2026-01-01T13:00:00.000Z']);
  });

  test.each([
    ['a step that does not exist', { step: 7 }],
    ['minutes of the time before two days', { from: iso(Date.now() - 50 * HOUR_MS), step: 60 }],
    ['a start after the end', { from: iso(Date.now() + HOUR_MS) }],
    ['a time that is rounded to a year of five digits', { to: '9999-12-31T23:59:59Z' }],
    ['a time before 1970', { from: '0001-01-01T00:00:00Z' }],
    ['too many points', { from: iso(Date.now() - 1_501 * HOUR_MS), step: 3600 }],
  ])('refuses %s', async (_what, query) => {
    expect((await read(query as Record<string, string>)).status).toBe(422);
  });

  test.each([
    [1, 900],
    [7, 21_600],
    [90, 86_400],
    [400, 86_400],
  ])('of %i days has the step %i', async (days, step) => {
    const { body } = await read({ from: iso(Date.now() - days * 24 * HOUR_MS) });
    expect(body.step).toBe(step);
  });

  test('of the webhooks has the last 24 hours, busiest first, and no deleted webhook', async () => {
    const [quiet, busy, gone] = [
      await app.addWebhook(),
      await app.addWebhook({ name: 'busy' }),
      await app.addWebhook(),
    ];
    const hourMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
    await addHistory(app.database, [
      row(busy, hourMs - HOUR_MS, { accepted: 90 }),
      row(busy, hourMs, { accepted: 1_000, limited: 5 }),
      row(busy, hourMs - 24 * HOUR_MS, { accepted: 7 }),
      row(gone, hourMs, { accepted: 5_000 }),
    ]);
    await app.sql('update webhooks set deleted_at = now() where id = $1', gone.id);
    const { items } = (await viewer.api('GET', '/api/v1/history/webhooks')).body;
    expect(items[0]).toMatchObject({ webhook_id: busy.id, name: 'busy', accepted: 1_090, limited: 5 });
    expect(items[0].hours).toHaveLength(24);
    expect(items[0].hours.filter((events: number) => events > 0)).toEqual([90, 1_000]);
    const ids = items.map(({ webhook_id }: { webhook_id: string }) => webhook_id);
    expect(ids).toContain(quiet.id);
    expect(ids).not.toContain(gone.id);
    const few = (await viewer.api('GET', '/api/v1/history/webhooks?limit=1')).body.items;
    expect(few.map(({ webhook_id }: { webhook_id: string }) => webhook_id)).toEqual([busy.id]);
    const only = (await viewer.api('GET', `/api/v1/history/webhooks?webhook_ids=${quiet.id},${gone.id}`)).body.items;
    expect(only.map(({ webhook_id }: { webhook_id: string }) => webhook_id)).toEqual([quiet.id]);
    expect((await viewer.api('GET', '/api/v1/history/webhooks?limit=101')).status).toBe(422);
  });

  test('keeps minutes and quarters of an hour for two days and hours for 400', async () => {
    const webhook = await app.addWebhook();
    const daysAgo = (days: number) => Math.floor(Date.now() / HOUR_MS) * HOUR_MS - days * 24 * HOUR_MS;
    await addHistory(
      app.database,
      [1, 3, 401].map((days) => row(webhook, daysAgo(days), { accepted: 1 })),
    );
    await deleteOldHistory(app.database);
    const kept = await app.sql<{ step: number; days: number }>(
      `select step, round(extract(epoch from now() - at) / 86400)::int as days from history where webhook_id = $1 order by 2, 1`,
      webhook.id,
    );
    expect(kept.map(({ step, days }) => [step, days])).toEqual([
      [60, 1],
      [900, 1],
      [3600, 1],
      [3600, 3],
    ]);
  });
});

const nowMs = Date.now();
const ago = (ms: number) => iso(nowMs - ms);
const outage = (beganAgoMs: number, endedAgoMs: number): Outage => ({
  id: randomUUID(),
  machine: 'one',
  began_at: ago(beganAgoMs),
  ended_at: ago(endedAgoMs),
  refused: 1_234,
  spooled: 7,
});
const ancient = outage(91 * DAY_MS, 90 * DAY_MS + HOUR_MS);
const old = outage(40 * DAY_MS, 39 * DAY_MS);
const recent = outage(3 * HOUR_MS, 2 * HOUR_MS);

beforeAll(async () => {
  await addOutages(app.database, [ancient, old, recent]);
  // As after an insert whose result was lost.
  await addOutages(app.database, [recent]);
});

const list = async (query = '') => (await viewer.api('GET', `/api/v1/outages${query}`)).body.items;

test('the outages of 30 days are listed', async () => {
  expect(await list()).toEqual([recent]);
});

test('an outage is in every span that it lasted into', async () => {
  const half = ago(39.5 * DAY_MS);
  expect(await list(`?from=${half}`)).toEqual([recent, old]);
  expect(await list(`?from=${ago(50 * DAY_MS)}&to=${half}`)).toEqual([old]);
});

test('the newest ones, with a limit', async () => {
  expect(await list(`?from=${ago(60 * DAY_MS)}&limit=1`)).toEqual([recent]);
});

test('outages are deleted with other resolved issues, after 90 days', async () => {
  await deleteOldIssues(app.database.query);
  expect(await list(`?from=${ago(500 * DAY_MS)}`)).toEqual([recent, old]);
});
