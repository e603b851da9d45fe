/** What is stored of a flood, and what it costs: limits and one over. */

import { writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { randomSource } from '../../../server/receive/ingest/store.ts';
import { Diagnoser } from '../../../server/receive/rejections/diagnose.ts';
import { RejectionSampler, SAMPLE_BYTES, WAITING_BYTES_MAX } from '../../../server/receive/rejections/sampler.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';
import {
  deleteOldRejections,
  type RejectionRow,
  storeRejections,
} from '../../../server/store/queries/rejections/ring.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { ofEach, ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = ofEach(startTestApp);

const kept = async (webhook?: TestWebhook) => {
  const text = 'select id from rejections where $1::uuid is null or webhook_id = $1 order by id';
  return (await app.sql<{ id: string }>(text, webhook?.id ?? null)).map(({ id }) => id);
};

describe('the ring buffer', () => {
  const random = randomSource();
  const row = (webhook: TestWebhook, i: number, body = Buffer.alloc(0)): RejectionRow => ({
    id: uuidText(uuidv7(Date.now() - 10_000 + i, random())),
    webhookId: webhook.id,
    receivedAt: new Date().toISOString(),
    sourceIp: '192.0.2.1',
    reason: 'digest_differs',
    header: null,
    otherwiseValid: false,
    otherWebhookId: null,
    headers: '',
    signatures: [],
    body,
    bytes: body.length,
    batch: false,
    dedupeKey: null,
    url: null,
    onlyIfFirst: false,
  });
  const limits = { rejectionsMax: 1_000, webhookRejectionsMax: 1_000, bytesMax: 1_000_000 };

  test('keeps a number of rejections, and deletes the oldest beyond it', async () => {
    const webhooks = [await app.addWebhook(), await app.addWebhook()];
    const rows = Array.from({ length: 6 }, (_, i) => row(webhooks[i % 2]!, i));
    const store = (some: RejectionRow[]) => storeRejections(app.database, some, { ...limits, rejectionsMax: 5 });
    await store(rows.slice(0, 5));
    expect(await kept()).toEqual(rows.slice(0, 5).map(({ id }) => id));
    await store(rows.slice(5));
    expect(await kept()).toEqual(rows.slice(1).map(({ id }) => id));
  });

  test('keeps a number for one webhook, for any number of others', async () => {
    const [loud, quiet] = [await app.addWebhook(), await app.addWebhook()];
    const store = (some: RejectionRow[]) => storeRejections(app.database, some, { ...limits, webhookRejectionsMax: 3 });
    const old = row(quiet, 0);
    const rows = [1, 2, 3, 4].map((i) => row(loud, i));
    await store([old, ...rows.slice(0, 3)]);
    expect((await kept()).length).toBe(4);
    await store(rows.slice(3));
    // The first of its minute stays.
    expect(await kept(loud)).toEqual([0, 2, 3].map((i) => rows[i]!.id));
    expect(await kept(quiet)).toEqual([old.id]);
  });

  test('deletes the first ones of a reason, webhook and minute last, and keeps the newest half of a webhook', async () => {
    const webhook = await app.addWebhook();
    const minute = (i: number) => new Date(Date.UTC(2026, 0, 1, 0, i)).toISOString();
    const rows: RejectionRow[] = [
      ...[0, 1, 2].map((i) => ({ ...row(webhook, i), receivedAt: minute(0) })),
      { ...row(webhook, 3), receivedAt: minute(0), reason: 'body_trimmed' },
      ...[4, 5, 6].map((i) => ({ ...row(webhook, i), receivedAt: minute(1) })),
    ];
    const keptOf = async (max: number) => {
      await storeRejections(app.database, [], { ...limits, webhookRejectionsMax: max });
      const ids = await kept();
      return rows.flatMap(({ id }, i) => (ids.includes(id) ? [i] : []));
    };
    await storeRejections(app.database, rows, limits);
    expect(await keptOf(5)).toEqual([0, 3, 4, 5, 6]);
    expect(await keptOf(4)).toEqual([3, 4, 5, 6]);
  });

  test('stores a sample that is kept only as the first of its reason, webhook and minute once', async () => {
    const [one, other] = [await app.addWebhook(), await app.addWebhook()];
    const at = (webhook: TestWebhook, i: number, receivedAt: string, rest: Partial<RejectionRow> = {}) => ({
      ...row(webhook, i),
      receivedAt,
      onlyIfFirst: true,
      ...rest,
    });
    const stored = await storeRejections(
      app.database,
      [
        at(one, 0, '2026-01-01T00:00:59Z', { onlyIfFirst: false }),
        at(one, 1, '2026-01-01T00:00:00Z'),
        at(one, 2, '2026-01-01T00:01:00Z'),
        at(one, 3, '2026-01-01T00:01:00Z', { reason: 'body_trimmed' }),
        at(other, 4, '2026-01-01T00:01:00Z'),
        at(other, 5, '2026-01-01T00:01:59Z'),
      ],
      limits,
    );
    expect(stored).toEqual(['digest_differs', 'digest_differs', 'body_trimmed', 'digest_differs']);
  });

  test('keeps a number of bytes, of headers, signatures and bodies', async () => {
    const webhook = await app.addWebhook();
    // Two bytes are the empty list of signatures.
    const store = (some: RejectionRow[]) => storeRejections(app.database, some, { ...limits, bytesMax: 306 });
    const rows = [98, 98, 98].map((bytes, i) => ({ ...row(webhook, i, Buffer.alloc(bytes)), headers: 'a: b' }));
    rows[0]!.headers = '';
    rows[1]!.headers = '';
    rows[2]!.headers = 'a: b56';
    await store(rows);
    expect((await kept()).length).toBe(3);
    await store([row(webhook, 3, Buffer.alloc(99))]);
    expect((await kept()).length).toBe(2);
  });

  test('holds under concurrent writers without a deadlock', async () => {
    const webhook = await app.addWebhook();
    const rounds = Array.from({ length: 12 }, (_, i) => [row(webhook, 2 * i), row(webhook, 2 * i + 1)]);
    await Promise.all(rounds.map((rows) => storeRejections(app.database, rows, { ...limits, rejectionsMax: 7 })));
    expect((await kept()).length).toBe(7);
  });

  test('deletes rejections older than the retention of the webhook or the default, and of deleted webhooks', async () => {
    const [usual, brief, gone] = [await app.addWebhook(), await app.addWebhook(), await app.addWebhook()];
    await app.sql('update webhooks set retention_days = 2 where id = $1', brief.id);
    const aged = (webhook: TestWebhook, days: number) => ({
      ...row(webhook, 0),
      receivedAt: new Date(Date.now() - days * DAY_MS).toISOString(),
    });
    const rows = [aged(usual, 4.9), aged(usual, 5.1), aged(brief, 1.9), aged(brief, 2.1), aged(gone, 0)];
    await storeRejections(app.database, rows, limits);
    await app.webhooks.remove(gone.id);
    expect(await deleteOldRejections(app.database, 5)).toBe(3);
    expect((await kept()).sort()).toEqual([rows[0]!.id, rows[2]!.id].sort());
    expect(await deleteOldRejections(app.database, 5)).toBe(0);
  });
});

/** Sends unsigned requests, a few at a time; returns how many were answered 403. */
async function flood(webhook: TestWebhook, requests: number, bodyBytes: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const body = Buffer.alloc(bodyBytes, 'x');
  let [left, refused] = [requests, 0];
  const lane = async () => {
    while (left-- > 0)
      await new Promise<void>((resolve, reject) => {
        const sent = request(webhook.url, { method: 'POST', agent, headers: { 'content-length': bodyBytes } });
        sent.once('error', reject).once('response', (response) => {
          if (response.statusCode === 403) refused++;
          response.resume().once('end', resolve);
        });
        sent.end(body);
      });
  };
  await Promise.all(Array.from({ length: 16 }, lane));
  agent.destroy();
  return refused;
}

test('the settings limit the rejections: a number, a fifth of it for one webhook, and a body size', async () => {
  const small = await ofTest(startTestApp({ REJECTIONS_KEPT_MAX: 10, REJECTION_BODY_BYTES_MAX: 100 }));
  const webhook = await small.addWebhook();
  const kept = () =>
    small.sql<{ bytes: number; kept: boolean }>(
      'select bytes, body is not null as kept from rejections order by bytes',
    );
  const refuse = async (bytes: number) => {
    expect((await fetch(webhook.url, { method: 'POST', body: 'x'.repeat(bytes) })).status).toBe(403);
    await until(async () => (await kept()).some((row) => row.bytes === bytes));
  };
  for (const bytes of [101, 99, 100]) await refuse(bytes);
  expect(await kept()).toEqual([
    { bytes: 100, kept: true },
    { bytes: 101, kept: false },
  ]);
});

test('a flood of invalid signatures is sampled: memory is bounded, other webhooks are served, and their rejections kept', async () => {
  const [loud, quiet, served] = [await app.addWebhook(), await app.addWebhook(), await app.addWebhook()];
  const startMs = performance.now();
  const flooding = flood(loud, 1_500, 60_000);
  let highest = 0;
  const watching = setInterval(async () => {
    highest = Math.max(highest, await app.metric('weir_rejection_bytes_held'));
  }, 5);
  onTestFinished(() => clearInterval(watching));
  for (let i = 0; i < 20; i++)
    expect((await fetch(served.url, signedRequest({ secret: served.secret }))).status).toBe(202);
  expect((await fetch(quiet.url, { method: 'POST', body: '{}' })).status).toBe(403);
  expect(await flooding).toBe(1_500);
  const seconds = (performance.now() - startMs) / 1_000;
  await until(async () => (await app.metric('weir_rejection_bytes_held')) === 0);
  expect(await kept(quiet)).toHaveLength(1);
  const samples = (await kept(loud)).length;
  expect(samples).toBeGreaterThanOrEqual(10);
  expect(samples).toBeLessThanOrEqual(10 + seconds + 1);
  expect(highest).toBeGreaterThan(0);
  expect(highest).toBeLessThan(2_300_000);
  expect(await app.metric('weir_rejections_total')).toBe(1_501);
  expect(await app.metric('weir_rejections_stored_total')).toBe(samples + 1);
});

test('samples of a database outage are stored after it', async () => {
  const webhook = await app.addWebhook();
  await app.cutOff();
  expect((await fetch(webhook.url, { method: 'POST', body: 'during' })).status).toBe(403);
  await app.restore();
  await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  expect((await fetch(webhook.url, { method: 'POST', body: 'after' })).status).toBe(403);
  await until(async () => (await kept(webhook)).length === 2);
  expect(await app.metric('weir_rejections_total')).toBe(2);
});

describe('samples waiting for storage', () => {
  const exchange = {
    route: '/in/:webhook_id',
    path: '/in/x',
    query: 'a=b',
    headers: ['a', 'bc'],
    client: { address: '192.0.2.1' },
  } as never;
  /** In memory, headers take two bytes a character. */
  const HEADER_BYTES = 6 + SAMPLE_BYTES;
  const refused = (webhook: never, bytes: number) => {
    const body = new Uint8Array(new SharedArrayBuffer(bytes));
    return { exchange, webhook, body, json: body };
  };

  /** A sampler whose rounds wait for the test, with a clock of the test. */
  function keeperOf(diagnose: () => Promise<never[]>) {
    const outcomes: string[] = [];
    const clock = { nowMs: 0 };
    const keeper = new RejectionSampler({
      database: app.database,
      keys: [],
      diagnose,
      observer: {
        passedOver: (why, samples) => outcomes.push(...Array<string>(samples).fill(why)),
        stored: () => outcomes.push('stored'),
        failed: (samples, error) => outcomes.push(`${samples} failed: ${error.message}`),
      },
      limits: { rejectionsMax: 1_000, webhookRejectionsMax: 200, bytesMax: 1_000_000 },
      bodyBytesMax: 65_536,
      publicUrl: 'http://127.0.0.1',
      nowMs: () => clock.nowMs,
    });
    return { keeper, outcomes, clock };
  }

  test('are bounded in bytes, exactly', async () => {
    const webhook = {
      id: (await app.addWebhook({ secret: null })).id,
      dedupeHeader: null,
      dedupePath: null,
      scheme: { usesUrl: false },
    } as never;
    const { keeper, outcomes, clock } = keeperOf(async () => []);
    const offer = (bytes: number) => {
      clock.nowMs += 1_000;
      keeper.offer(refused(webhook, bytes), 'mismatch');
    };
    const rounds = Math.floor(WAITING_BYTES_MAX / (60_000 + HEADER_BYTES));
    for (let i = 0; i < rounds; i++) offer(60_000);
    const left = WAITING_BYTES_MAX - keeper.waitingBytes;
    expect(left).toBeLessThanOrEqual(60_000 + HEADER_BYTES);
    offer(left - HEADER_BYTES + 1);
    expect(outcomes).toEqual(['queue_full']);
    offer(left - HEADER_BYTES);
    expect([outcomes.length, keeper.waitingBytes]).toEqual([1, WAITING_BYTES_MAX]);
    await keeper.close();
  });

  test('count their signed URL, of any length', async () => {
    const webhook = {
      id: (await app.addWebhook({ secret: null })).id,
      dedupeHeader: null,
      dedupePath: null,
      scheme: { usesUrl: true },
    } as never;
    const { keeper } = keeperOf(async () => []);
    keeper.offer(refused(webhook, 5), 'mismatch');
    expect(keeper.waitingBytes).toBe(5 + HEADER_BYTES + 2 * 'http://127.0.0.1/in/x?a=b'.length);
    await keeper.close();
  });

  test('a failed thread loses its batch, and the next one is stored', async () => {
    const webhook = {
      id: (await app.addWebhook()).id,
      dedupeHeader: null,
      dedupePath: null,
      scheme: { usesUrl: false },
    } as never;
    let fails = true;
    const { keeper, outcomes } = keeperOf(async () => {
      if (!fails) return [];
      fails = false;
      throw new Error('the thread died');
    });
    keeper.offer(refused(webhook, 1), 'mismatch');
    await until(() => outcomes.length === 1);
    // Without its keys no webhook can be loaded, and there is nothing to diagnose.
    keeper.offer(refused(webhook, 1), 'mismatch');
    await until(() => outcomes.length === 2);
    expect(outcomes).toEqual(['1 failed: the thread died', 'stored']);
    expect(keeper.waitingBytes).toBe(0);
    await keeper.close();
  });
});

test.each([
  ['hangs', 'for (;;);'],
  ['throws', 'throw new Error("broken");'],
  ['ends', 'process.exit(1);'],
])('a thread that %s is reported, and the next one works', async (_, fault) => {
  const workerFile = join(temporaryDirectory(), 'worker.mjs');
  await writeFile(
    workerFile,
    `export default (requests) => { if (requests.length === 1) { ${fault} } return requests; }`,
  );
  const diagnoser = await ofTest(new Diagnoser(workerFile, { timeoutMs: 500 }));
  const settings = { signatureScheme: 'sha256', schemeDefinition: null, signatureHeader: null, publicKey: null };
  const requested = {
    ...{ headers: [], body: null, secrets: [], others: [], url: '', receivedAtMs: 0 },
    settings: { ...settings, toleranceSeconds: null },
  };
  await expect(diagnoser.diagnose([requested])).rejects.toThrow();
  // A busy machine may take as long to start the next thread.
  expect(await until(() => diagnoser.diagnose([requested, requested]).catch(() => null))).toHaveLength(2);
});
