import { describe, expect, test } from 'vitest';
import { type Overrides, startTestApp, type TestApp, type TestWebhook } from '../../helpers/app.ts';
import { RawClient } from '../../helpers/requests.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

let app: TestApp;
let webhook: TestWebhook;

async function start(overrides: Overrides): Promise<void> {
  app = await ofTest(startTestApp(overrides));
  webhook = await app.addWebhook({ secret: null });
}

const connect = (localAddress?: string) => ofTest(RawClient.connect(app.port, localAddress));

/** Starts a body of `declaredBytes` and sends this many of them. */
async function begin(declaredBytes: number, sentBytes: number, localAddress?: string): Promise<RawClient> {
  const client = await connect(localAddress);
  const head = `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${declaredBytes}\r\n\r\n`;
  await client.send(head + 'x'.repeat(sentBytes));
  return client;
}

async function outcome(client: RawClient): Promise<[number, string | undefined, string | undefined]> {
  const answer = (await client.answer())!;
  return [answer.status, JSON.parse(answer.body.toString()).code, answer.headers['retry-after']];
}

const post = async (to: TestWebhook, body = '{}') => {
  const response = await fetch(to.url, { method: 'POST', body });
  await response.arrayBuffer();
  const { headers, status } = response;
  return { status, policy: headers.get('ratelimit-policy'), left: headers.get('ratelimit')?.replace(/t=\d+$/, 't') };
};
const heldBytes = () => app.metric('weir_body_bytes_held');

describe('the rate limit', () => {
  test('is in every response, and refuses the request over it', async () => {
    await start({ RATE_LIMIT_INGEST_MAX: 3 });
    const policy = '"ingest";q=3;w=60';
    for (const [status, left] of [
      [202, 2],
      [202, 1],
      [202, 0],
      [429, 0],
      [429, 0],
    ])
      expect(await post(webhook)).toEqual({ status, policy, left: `"ingest";r=${left};t` });
    expect((await fetch(`${app.url}/healthz`)).headers.get('ratelimit')).toBeNull();
  });

  test('is shared by all webhooks, and separate for each client address', async () => {
    await start({ RATE_LIMIT_INGEST_MAX: 2 });
    const other = await app.addWebhook({ secret: null });
    expect([(await post(webhook)).status, (await post(other)).status, (await post(webhook)).status]).toEqual([
      202, 202, 429,
    ]);
    expect((await outcome(await begin(2, 2, '127.0.0.2')))[0]).toBe(202);
  });

  test('of a webhook applies to that webhook only, and to no other', async () => {
    await start({ RATE_LIMIT_INGEST_MAX: 1 });
    const own = await app.addWebhook({ secret: null, rate_limit_max: 2 });
    expect([(await post(webhook)).status, (await post(webhook)).status]).toEqual([202, 429]);
    expect(await post(own)).toEqual({ status: 202, policy: '"ingest";q=2;w=60', left: '"ingest";r=1;t' });
    expect([(await post(own)).status, (await post(own)).status]).toEqual([202, 429]);
    // The limit also holds when the process has to load the webhook again.
    const another = await app.addWebhook({ secret: null, rate_limit_max: 1 });
    app.app.changesLost();
    expect([(await post(another)).status, (await post(another)).status]).toEqual([202, 429]);
  });

  test('is answered before the body is received', async () => {
    await start({ RATE_LIMIT_INGEST_MAX: 1 });
    await post(webhook);
    const [status, code] = await outcome(await begin(100_000, 0));
    expect([status, code]).toEqual([429, 'rate_limited']);
  });
});

describe('memory for bodies', () => {
  test('is refused with 503 when all of it is held, and released completely', async () => {
    await start({ BODY_BYTES_HELD_MAX: 1_048_576, WEBHOOK_MAX_PAYLOAD_BYTES: 1_048_576 });
    expect(await heldBytes()).toBe(0);
    const first = await begin(700_000, 699_999);
    await until(async () => (await heldBytes()) === 699_999);
    const second = await begin(700_000, 500_000);
    expect(await outcome(second)).toEqual([503, 'memory_full', '1']);
    expect(await heldBytes()).toBe(699_999);
    await first.send('x');
    expect((await outcome(first))[0]).toBe(202);
    expect(await heldBytes()).toBe(0);
    // All that can be held.
    expect((await outcome(await begin(1_048_576, 1_048_576)))[0]).toBe(202);
    expect(await heldBytes()).toBe(0);
  });

  test('is released by clients that disconnect in progress', async () => {
    await start({});
    const clients = await Promise.all(Array.from({ length: 10 }, () => begin(100_000, 50_000)));
    await until(async () => (await heldBytes()) === 500_000);
    for (const client of clients) client.destroy();
    await until(async () => (await heldBytes()) === 0);
    expect(await app.metric('weir_open_requests')).toBe(0);
    expect(await app.metric('weir_requests_aborted_total')).toBe(10);
  });

  test.each([
    ['complete', async (client: RawClient) => client.send('0\r\n\r\n'), 202],
    ['aborted', async (client: RawClient) => client.destroy(), null],
  ])(
    'of a body in thousands of tiny chunks is counted in bytes, and released when it is %s',
    async (_end, end, status) => {
      await start({ CHUNKED_BODIES: 'accept' });
      const client = await connect();
      await client.send(`POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`);
      await client.send('2\r\nxy\r\n'.repeat(20_000));
      await until(async () => (await heldBytes()) === 40_000);
      await end(client);
      if (status !== null) expect((await outcome(client))[0]).toBe(status);
      await until(async () => (await heldBytes()) === 0);
    },
  );

  test('is limited for each client address, so that one client cannot block the others', async () => {
    await start({ CLIENT_BODY_BYTES_HELD_MAX: 65_536, WEBHOOK_MAX_PAYLOAD_BYTES: 65_536 });
    const first = await begin(65_000, 60_000);
    await until(async () => (await heldBytes()) === 60_000);
    expect(await outcome(await begin(65_000, 6_000))).toEqual([503, 'client_busy', '1']);
    const neighbour = await begin(65_000, 64_999, '127.0.0.2');
    await neighbour.send('x');
    expect((await outcome(neighbour))[0]).toBe(202);
    await first.send('x'.repeat(5_000));
    expect((await outcome(first))[0]).toBe(202);
    expect(await heldBytes()).toBe(0);
  });
});

test('unfinished requests of one client address are limited: at the limit accepted, one over it 503', async () => {
  await start({ CLIENT_REQUESTS_MAX: 2 });
  const first = await begin(10, 5);
  const second = await begin(10, 5);
  await until(async () => (await app.metric('weir_open_requests')) === 2);
  expect(await outcome(await begin(10, 10))).toEqual([503, 'client_busy', '1']);
  expect((await outcome(await begin(10, 10, '127.0.0.2')))[0]).toBe(202);
  await first.send('12345');
  expect((await outcome(first))[0]).toBe(202);
  expect((await outcome(await begin(10, 10)))[0]).toBe(202);
  second.destroy();
  await until(async () => (await app.metric('weir_open_requests')) === 0);
});

test('uncommitted events are limited: over the limit the response is 503, and queued events are stored', async () => {
  await start({ QUEUE_EVENTS_MAX: 3 });
  const keyed = await app.addWebhook({ secret: null, dedupe_header: 'x-id' });
  const sent: Promise<{ status: number }>[] = [];
  await app.database.transaction(async (query) => {
    // Nothing can be committed while this lock is held.
    await query({ text: 'lock table events in access exclusive mode' });
    // The first events are in a commit that cannot end; the next ones wait.
    await until(async () => {
      if ((await app.metric('weir_queue_events')) === 3) return true;
      sent.push(post(webhook));
      return false;
    });
    expect(await outcome(await begin(2, 2))).toEqual([503, 'queue_full', expect.stringMatching(/^[1-9]\d*$/)]);
    // Events with a key have their own queue of this length.
    await until(async () => {
      if ((await app.metric('weir_queue_events')) > 3) return true;
      sent.push(fetch(keyed.url, { method: 'POST', body: '{}', headers: { 'x-id': `${sent.length}` } }));
      return false;
    });
    expect(await app.metric('weir_queue_fill_ratio')).toBe(1);
  });
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.filter((status) => status !== 202 && status !== 503)).toEqual([]);
  const stored = statuses.filter((status) => status === 202).length;
  expect(stored).toBeGreaterThan(3);
  const [row] = await app.sql<{ count: number }>('select count(*)::int as count from events');
  expect(row!.count).toBe(stored);
  expect(await app.metric('weir_queue_events')).toBe(0);
});
