/** Latency: histograms from receipt to commit, first claim and acknowledgement. */
import { describe, expect, test } from 'vitest';
import {
  BUCKETS,
  bucketOf,
  LATENCY_SUBJECTS_MAX,
  type LatencyItem,
  quantileOf,
} from '../../../../server/model/latency.ts';
import { addLatency, deleteOldLatency, type LatencyRow } from '../../../../server/store/queries/webhooks/latency.ts';
import { addAgent, send, startAgentApp, storeEvents } from '../../../helpers/agents.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000];

describe('a histogram', () => {
  test.each([
    [-5, 0],
    [0, 0],
    [0.99, 0],
    [1, 1],
    [2, 5],
    [1_000, 40],
    [2 ** 31, 125],
    [2 ** 50, BUCKETS - 1],
  ])('counts %d ms in bucket %i', (ms, bucket) => {
    expect(bucketOf(ms)).toBe(bucket);
  });

  test.each([7, 44, 350, 2_900, 61_000, 7_200_000])('knows a time of %i ms to a fifth', (ms) => {
    const counts = new Map([[bucketOf(ms), 1_000]]);
    for (const share of [0.5, 0.95]) {
      const ratio = quantileOf(counts, share) / ms;
      expect(ratio).toBeGreaterThan(1 / 1.2);
      expect(ratio).toBeLessThan(1.2);
    }
  });

  test('has quantiles close to those of the times', () => {
    const counts = new Map<number, number>();
    for (let ms = 1; ms <= 10_000; ms++) counts.set(bucketOf(ms), (counts.get(bucketOf(ms)) ?? 0) + 1);
    for (const share of [0.5, 0.95]) {
      const ratio = quantileOf(counts, share) / (share * 10_000);
      expect(Math.abs(ratio - 1)).toBeLessThan(0.1);
    }
  });
});

describe('the latency of webhooks and agents', () => {
  const app = shared(startAgentApp);
  const viewer = shared(() => addPerson(app, 'viewer'));

  const list = async (query = ''): Promise<LatencyItem[]> =>
    (await viewer.api('GET', `/api/v1/history/latency${query}`)).body.items;
  const row = (subjectId: string, ms: number, given: Partial<LatencyRow> = {}): LatencyRow => ({
    subjectId,
    stage: 0,
    bucket: bucketOf(ms),
    count: 1,
    atMs: Date.now(),
    ...given,
  });

  test('is counted by the process: commits, first claims, acknowledgements and retries, without what was replayed', async () => {
    const own = await startTestApp({}, app);
    const webhook = await own.addWebhook();
    const agent = await addAgent(own, [webhook]);
    for (let i = 0; i < 3; i++) await send(webhook);
    const receiptsOf = (deliveries: { receipt: string }[]) => deliveries.map(({ receipt }) => receipt);
    const receipts = receiptsOf(await agent.claim());
    await agent.ack(receipts.slice(0, 1));
    expect((await agent.post('claim', { ack: receipts.slice(1, 2) })).body.settled.done.length).toBe(1);
    await agent.nack(receipts.slice(2), { delay_seconds: 0 });
    await agent.ack(receiptsOf(await agent.claim()));
    // As a replay does it: the delivery is made after the minute in which the event was received.
    await storeEvents(own.database, webhook.id, 1, Date.now() - 61_000);
    const late = receiptsOf(await agent.claim());
    expect((await agent.ack(late)).done.length).toBe(1);
    await own.stop();
    for (const { id, stored } of [
      { id: webhook.id, stored: 3 },
      { id: agent.id, stored: undefined },
    ]) {
      const [item] = await list(`?id=${id}`);
      expect([item!.stored?.count, item!.claimed?.count, item!.acknowledged?.count, item!.retries]).toEqual([
        stored,
        3,
        3,
        1,
      ]);
    }
  });

  test('is of the last 24 hours, or of days with today, and the slowest comes first', async () => {
    const [slow, fast] = [await app.addWebhook({ name: 'slow' }), await app.addWebhook({ name: 'fast' })];
    await addLatency(app.database, [
      row(fast.id, 3, { count: 99 }),
      row(fast.id, 500, { count: 1 }),
      row(slow.id, 3, { count: 90 }),
      row(slow.id, 500, { count: 10 }),
      row(slow.id, 20, { stage: 1, atMs: Date.now() - 23 * HOUR_MS }),
      row(slow.id, 20, { stage: 1, atMs: Date.now() - 24 * HOUR_MS }),
      row(slow.id, 20, { stage: 1, atMs: Date.now() - 6 * DAY_MS }),
      row(slow.id, 20, { stage: 1, atMs: Date.now() - 7 * DAY_MS }),
      row(slow.id, 20, { stage: 1, atMs: Date.now() - 29 * DAY_MS }),
      row(slow.id, 20, { stage: 1, atMs: Date.now() - 30 * DAY_MS }),
    ]);
    const own = (items: LatencyItem[]) => items.filter(({ id }) => id === slow.id || id === fast.id);
    expect(own(await list()).map(({ name }) => name)).toEqual(['slow', 'fast']);
    const [day] = await list(`?id=${slow.id}`);
    expect(day).toMatchObject({
      kind: 'webhook',
      stored: { count: 100 },
      claimed: { count: 1 },
      acknowledged: null,
      retries: 0,
    });
    expect(day!.stored!.p50_ms).toBeLessThan(5);
    expect(day!.stored!.p95_ms).toBeGreaterThan(350);
    expect((await list(`?days=7&id=${slow.id}`))[0]!.claimed!.count).toBe(3);
    expect((await list(`?days=30&id=${slow.id}`))[0]!.claimed!.count).toBe(5);
    expect((await viewer.api('GET', '/api/v1/history/latency?days=2')).status).toBe(422);
  });

  test('is shown on its page, with the time chosen', async () => {
    const webhook = await app.addWebhook({ name: 'shown' });
    await addLatency(app.database, [row(webhook.id, 100_000, { stage: 2, atMs: Date.now() - 3 * DAY_MS })]);
    const page = async (path: string) => (await fetch(app.url + path, { headers: { cookie: viewer.cookie } })).text();
    expect(await page('/webhooks/latency')).not.toContain('shown</a>');
    const week = await page('/webhooks/latency?days=7');
    expect(week).toContain(`<a href="/webhooks/${webhook.id}">shown</a>`);
    expect(week.split('data-label="Acknowledged, p50">')[1]).toMatch(/^1 min \d+ s</);
    expect(await page(`/webhooks/latency?days=7&id=${webhook.id}`)).toContain('Show all webhooks and agents');
  });

  test('is of the slowest webhooks, up to the limit, at each time', async () => {
    const added = await app.sql<{ id: string }>(
      `insert into webhooks (id, name) select gen_random_uuid(), 'one of many' from generate_series(1, $1) returning id`,
      1_001,
    );
    const [fast, ...slow] = added.slice(0, LATENCY_SUBJECTS_MAX + 1).map(({ id }) => id);
    await addLatency(app.database, [row(fast!, 200_000), ...slow.map((id) => row(id, 300_000, { stage: 2 }))]);
    const listed = (await list()).filter(({ kind }) => kind === 'webhook').map(({ id }) => id);
    expect(listed.sort()).toEqual(slow.sort());
    expect((await list(`?id=${fast}`)).map(({ id }) => id)).toEqual([fast]);
    await addLatency(app.database, [row(fast!, 400_000, { count: 2 })]);
    expect((await list())[0]!.id).toBe(fast);
  });

  test('is kept by hour for two days and by day for 31', async () => {
    const webhook = await app.addWebhook();
    await addLatency(
      app.database,
      [1, 3, 30, 33].map((days) => row(webhook.id, 1, { atMs: Date.now() - days * DAY_MS })),
    );
    await deleteOldLatency(app.database);
    const kept = await app.sql<{ step: number; days: number }>(
      `select step, round(extract(epoch from now() - at) / 86400)::int as days from latency where subject_id = $1`,
      webhook.id,
    );
    const rows = (step: number) => kept.filter((one) => one.step === step).length;
    expect([rows(3_600), rows(86_400)]).toEqual([1, 3]);
  });
});
