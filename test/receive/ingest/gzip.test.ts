/** Bodies with Content-Encoding: gzip are read decompressed, within bounds, and stored as they were sent. */
import { createHmac } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { GZIP_BYTES_MAX, INFLATED_BYTES_MAX, inflatedMax } from '../../../server/model/signatures/gzip.ts';
import type { NewWebhook } from '../../../server/model/webhooks.ts';
import { CLIENT_MS_PER_SECOND, type Inflated, Inflater } from '../../../server/receive/ingest/inflate.ts';
import { addAgent, startAgentApp } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'a secret between friends';
const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));

const addWebhook = (given: Partial<NewWebhook> = {}) =>
  app.addWebhook({ secret: SECRET, event_type_from: 'json:/type', ...given });

async function post({ path }: TestWebhook, body: Buffer, headers: Record<string, string> = {}) {
  const signed = { 'x-hub-signature-256': signatureOf(SECRET, body), 'content-type': 'application/json' };
  const init = { method: 'POST', body: new Uint8Array(body), headers: { ...signed, ...headers } };
  const response = await fetch(app.url + path, init);
  return { status: response.status, id: response.headers.get('x-weir-event-id')! };
}

async function storedOf(id: string) {
  const text = 'select event_type, body from events where id = $1';
  return (await app.sql<{ event_type: string | null; body: Buffer }>(text, id))[0]!;
}

const gzip = { 'content-encoding': 'gzip' };
const json = (more: object = {}) => Buffer.from(JSON.stringify({ type: 'order.paid', amount: 7, ...more }));
/** JSON of these bytes that is hard to compress. */
const noise = (bytes: number) => json({ noise: createHmac('sha512', 'x').digest('hex').repeat(8).slice(0, bytes) });

/** A gzip body of empty blocks, each with tables of its own: the slowest by the byte. */
function emptyBlocks(bytes: number): Buffer {
  const out: number[] = [];
  let [held, bits] = [0, 0];
  /** Pairs of a value and its bits. */
  const write = (...pairs: number[]) => {
    for (let at = 0; at < pairs.length; at += 2)
      for (let i = 0; i < pairs[at + 1]!; i++) {
        held |= ((pairs[at]! >> i) & 1) << bits;
        if (++bits === 8) [held, bits] = [out.push(held) * 0, 0];
      }
  };
  const order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1];
  while (out.length < bytes - 40) {
    write(0, 1, 2, 2, 0, 5, 0, 5, 14, 4);
    for (const symbol of order) write(symbol === 18 || symbol === 1 ? 1 : 0, 3);
    write(1, 1, 127, 7, 1, 1, 107, 7, 0, 1, 0, 1, 0, 1);
  }
  write(1, 1, 1, 2, 0, 7, 0, 7);
  return Buffer.concat([Buffer.from('1f8b0800000000000003', 'hex'), Buffer.from(out), Buffer.alloc(8)]);
}

describe('a compressed body', () => {
  test.each(['gzip', 'GZIP', 'x-gzip'])(
    'with Content-Encoding: %s has a type, and is stored as it was sent',
    async (name) => {
      const body = gzipSync(json());
      const { status, id } = await post(await addWebhook(), body, { 'content-encoding': name });
      expect([status, await storedOf(id)]).toEqual([202, { event_type: 'order.paid', body }]);
    },
  );

  test('is read by filters and pages, and an agent gets it as it was sent', async () => {
    const webhook = await addWebhook();
    const [paid, large] = [await addAgent(app, [webhook]), await addAgent(app, [webhook])];
    for (const [agent, filter] of [
      [paid, 'body.amount == 7'],
      [large, 'body.amount > 7'],
    ] as const)
      await operator.api('PUT', `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`, { filter });
    const body = gzipSync(json());
    const { id } = await post(webhook, body, gzip);
    expect((await paid.claimOne()).event).toMatchObject({ id, body_base64: body.toString('base64') });
    expect(await large.claim()).toEqual([]);
    const page = (await operator.browse('GET', `/events/${id}`)).text;
    expect(page).toContain('data-k="amount"');
    expect(page).toContain('sent with gzip; shown decompressed');
    const edit = (await operator.browse('GET', `/events/${id}/edit`)).text;
    expect(edit).toContain('&quot;amount&quot;: 7');
    expect(edit).not.toContain('content-encoding');
  });

  test('has an id where its scheme has it in the body', async () => {
    const scheme_definition = { algorithm: 'token', header: 'x-own', id: 'json:/id' } as const;
    const webhook = await addWebhook({ signature_scheme: 'custom', scheme_definition });
    const send = (body: Buffer) => post(webhook, gzipSync(body, { level: 1 }), { ...gzip, 'x-own': SECRET });
    const first = await send(json({ id: 'one' }));
    expect([first.status, await send(json({ id: 'one', again: true }))]).toEqual([202, { status: 200, id: first.id }]);
    expect((await send(json({ id: 'two' }))).status).toBe(202);
  });

  test('of GetStream is signed decompressed', async () => {
    const webhook = await addWebhook({ signature_scheme: 'getstream', event_type_from: null });
    const sign = (text: Buffer) => createHmac('sha256', SECRET).update(text).digest('hex');
    const send = (body: Buffer, signed: Buffer, id: string, headers = {}) =>
      post(webhook, body, { 'x-signature': sign(signed), 'x-webhook-id': id, ...headers });
    const body = gzipSync(json());
    const { status, id } = await send(body, json(), '1', gzip);
    expect([status, await storedOf(id)]).toEqual([202, { event_type: 'order.paid', body }]);
    expect((await send(json(), json(), '2')).status).toBe(202);
    expect((await send(body, body, '3', gzip)).status).toBe(403);
    expect((await send(gzipSync(json({ more: 1 })), json(), '4', gzip)).status).toBe(403);
    expect((await send(gzipSync(Buffer.alloc(INFLATED_BYTES_MAX + 1)), json(), '5', gzip)).status).toBe(403);
    expect((await send(body.subarray(0, 20), json(), '6', gzip)).status).toBe(403);
  });

  test.each<[string, () => Buffer, Record<string, string>]>([
    ['without the header', () => gzipSync(json()), {}],
    ['of another encoding', () => gzipSync(json()), { 'content-encoding': 'br' }],
    ['that is cut off', () => gzipSync(json()).subarray(0, 20), gzip],
    ['that is not compressed', () => Buffer.from([0x1f, 0x8b, 1, 2, 3]), gzip],
    ['with too many decompressed bytes', () => gzipSync(Buffer.concat([json(), Buffer.alloc(2_000_000, 32)])), gzip],
    ['with too many bytes for its size', () => gzipSync(Buffer.concat([json(), Buffer.alloc(500_000, 32)])), gzip],
    ['with too many bytes', () => Buffer.concat([gzipSync(json()), Buffer.alloc(GZIP_BYTES_MAX)]), gzip],
  ])('%s is stored without a type', async (_, body, headers) => {
    const sent = body();
    const { status, id } = await post(await addWebhook(), sent, headers);
    expect([status, await storedOf(id)]).toEqual([202, { event_type: null, body: sent }]);
  });

  test('keeps its type when it is accepted after a rejection', async () => {
    const webhook = await addWebhook({ secret: 'another secret' });
    expect((await post(webhook, gzipSync(json()), gzip)).status).toBe(403);
    await app.webhooks.rotate(webhook.id, { secret: SECRET, overlap_seconds: 0 });
    const list = async () => (await operator.api('GET', `/api/v1/rejections?webhook_id=${webhook.id}`)).body.items;
    await until(async () => (await list()).length === 1);
    const accepted = await operator.api('POST', `/api/v1/rejections/${(await list())[0].id}/accept`);
    expect((await storedOf(accepted.body.event_id)).event_type).toBe('order.paid');
  });
});

describe('the work that a client can cause is bounded', () => {
  const inflate = (inflater: Inflater, body: Buffer, nowMs = 0, client = load) =>
    new Promise<Inflated>((done) => inflater.inflate(body, client, nowMs, done));
  const load = { requests: 0, gatheringBytes: 0, sentBytes: 0 };

  test('for one body', async () => {
    const worst = emptyBlocks(GZIP_BYTES_MAX);
    expect(worst.length).toBeLessThanOrEqual(GZIP_BYTES_MAX);
    const { user, system } = process.cpuUsage();
    await inflate(new Inflater(), worst);
    const used = process.cpuUsage({ user, system });
    // Ten times 20 ms: a busy machine counts more.
    expect((used.user + used.system) / 1_000).toBeLessThan(200);
    expect([inflatedMax(GZIP_BYTES_MAX), inflatedMax(GZIP_BYTES_MAX + 1), inflatedMax(10)]).toEqual([
      INFLATED_BYTES_MAX,
      null,
      2_500,
    ]);
  });

  test('for many at once, by client and second', async () => {
    const inflater = new Inflater();
    const body = emptyBlocks(GZIP_BYTES_MAX / 4);
    const bodies = Array.from({ length: 100 }, () => body);
    const kinds = async (nowMs: number, client = load) => {
      const outcomes = await Promise.all(bodies.map((one) => inflate(inflater, one, nowMs, client)));
      return outcomes.filter(({ kind }) => kind !== 'busy').length;
    };
    // All begin before the first ends: the worst case of each counts.
    const allowed = Math.floor(CLIENT_MS_PER_SECOND / ((20 * body.length) / GZIP_BYTES_MAX));
    expect(await kinds(5_000)).toBe(allowed);
    expect(await kinds(5_000, { ...load })).toBe(allowed);
    expect(await kinds(6_000)).toBe(allowed);
  });

  test('a body that was quick costs the budget little', async () => {
    const inflater = new Inflater();
    const body = gzipSync(noise(2_000));
    for (let i = 0; i < 500; i++) expect((await inflate(inflater, body)).kind).toBe('inflated');
  });
});
