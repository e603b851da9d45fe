import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const LINES_MAX = 40;
const CAP_BYTES = 100_000;
/** Fewer events than a batch of LINES_MAX. */
const small = { COMMIT_EVENTS_MAX: 10, QUEUE_EVENTS_MAX: 8 };

const app = shared(() => startTestApp({ BATCH_LINES_MAX: LINES_MAX, WEBHOOK_MAX_PAYLOAD_BYTES: CAP_BYTES, ...small }));
const webhook = shared(() => app.addWebhook());

interface Answer {
  accepted: number;
  ids: string[];
  code: string;
  errors: { line: number; detail: string }[];
}

async function post(body: string | Buffer<ArrayBuffer>, to = webhook, secret = to.secret) {
  const type = { 'Content-Type': 'application/x-ndjson' };
  const response = await fetch(`${to.url}/batch`, signedRequest({ secret, body, headers: type }));
  return { status: response.status, headers: response.headers, answer: (await response.json()) as Answer };
}

interface Row {
  id: string;
  commit: string;
  received: string;
  content_type: string;
  headers: Buffer;
  body: Buffer;
  bytes: number;
}
const rowsOf = ({ id }: TestWebhook) =>
  app.sql<Row>(
    `select id, xmin::text as commit, received_at::text as received, content_type, headers, body, bytes
           from events where webhook_id = $1 order by id`,
    id,
  );

describe('an accepted batch', () => {
  test('stores an event for each line, byte for byte, in the order of the lines', async () => {
    const to = await app.addWebhook();
    const lines = ['{"a":1}', ' [ "é" , "\\ud800" ]\t', 'null', '"\u2028"', '{"a":1}', '-0.0e-0'];
    const { status, headers, answer } = await post(
      `${lines.slice(0, 3).join('\n')}\r\n\n\r\n${lines.slice(3).join('\r\n')}`,
      to,
    );
    expect([status, headers.get('content-type')]).toEqual([202, 'application/json']);
    const rows = await rowsOf(to);
    expect(answer).toEqual({ accepted: 6, ids: rows.map(({ id }) => id) });
    expect(rows.map(({ body }) => body.toString())).toEqual(lines);
    expect(rows.map(({ bytes }) => bytes)).toEqual(lines.map((line) => Buffer.byteLength(line)));
    expect(new Set(rows.map(({ content_type }) => content_type))).toEqual(new Set(['application/json']));
    for (const row of rows) expect(row.headers.toString()).toContain('content-type: application/x-ndjson');
  });

  test('is one commit with one time, even when it is larger than a commit and the queue', async () => {
    const to = await app.addWebhook();
    const { answer } = await post('{}\n'.repeat(LINES_MAX), to);
    expect(answer.accepted).toBe(LINES_MAX);
    const rows = await rowsOf(to);
    expect(rows.length).toBe(LINES_MAX);
    expect([
      new Set(rows.map(({ commit }) => commit)).size,
      new Set(rows.map(({ received }) => received)).size,
    ]).toEqual([1, 1]);
  });

  test('remains one commit among others and single events', async () => {
    const hooks = await Promise.all(Array.from({ length: 8 }, () => app.addWebhook()));
    const sendAll = hooks.flatMap((to) => [
      async () => void (await until(async () => (await post('[1]\n'.repeat(25), to)).status === 202)),
      async () => void (await fetch(webhook.url, signedRequest({ secret: webhook.secret }))),
    ]);
    await Promise.all(sendAll.map((send) => send()));
    for (const to of hooks) {
      const rows = await rowsOf(to);
      expect([rows.length, new Set(rows.map(({ commit }) => commit)).size]).toEqual([25, 1]);
    }
  });

  test('counts as one request in the limit', async () => {
    const to = await app.addWebhook({ rate_limit_max: 2 });
    const answers = [await post('1\n2\n3', to), await post('1\n2\n3', to), await post('1', to)];
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 429]);
    expect(answers.map(({ headers }) => headers.get('ratelimit')?.split(';')[1])).toEqual(['r=1', 'r=0', 'r=0']);
  });

  test('can be nested as deep as its size allows', async () => {
    const depth = CAP_BYTES / 2;
    expect((await post('['.repeat(depth) + ']'.repeat(depth))).status).toBe(202);
  });
});

describe('a refused batch', () => {
  test('reports every line that is not JSON, and nothing of it is stored', async () => {
    const to = await app.addWebhook();
    const body = Buffer.concat([
      Buffer.from('{}\n\n{"a":1,}\n"x"\n'),
      Buffer.of(0x22, 0xff, 0x22),
      Buffer.from('\n{"b":'),
    ]);
    const { status, headers, answer } = await post(body, to);
    expect([status, headers.get('content-type')]).toEqual([422, 'application/problem+json']);
    expect(answer).toMatchObject({
      status: 422,
      title: 'Unprocessable Content',
      code: 'batch_invalid',
      request_id: headers.get('x-request-id'),
      errors: [
        { line: 3, detail: 'unexpected byte at position 8' },
        { line: 5, detail: 'it is not valid UTF-8' },
        { line: 6, detail: 'unexpected end of input' },
      ],
    });
    expect(await rowsOf(to)).toEqual([]);
  });

  test.each([
    ['with no line', '', 422, 'batch_empty'],
    ['with empty lines alone', '\n\r\n\n', 422, 'batch_empty'],
    ['of one line too many', '1\n'.repeat(LINES_MAX + 1), 413, 'batch_too_large'],
    ['of one byte too many', `"${'x'.repeat(CAP_BYTES - 1)}"`, 413, 'payload_too_large'],
  ])('%s is reported', async (_what, body, status, code) => {
    const { answer, ...rest } = await post(body);
    expect([rest.status, answer.code]).toEqual([status, code]);
  });

  test('at both limits is accepted', async () => {
    const line = `"${'x'.repeat(CAP_BYTES / LINES_MAX - 3)}"\n`;
    expect(line.length * LINES_MAX).toBe(CAP_BYTES);
    expect((await post(line.repeat(LINES_MAX))).status).toBe(202);
  });

  test('needs a signature over the whole body: that of a line, or without the last line end, is refused', async () => {
    const sign = (text: string) => `sha256=${createHmac('sha256', webhook.secret!).update(text).digest('hex')}`;
    const statuses = [];
    for (const signed of ['{}\n{}\n', '{}\n{}', '{}']) {
      const headers = { 'X-Hub-Signature-256': sign(signed) };
      statuses.push((await fetch(`${webhook.url}/batch`, { method: 'POST', body: '{}\n{}\n', headers })).status);
    }
    expect(statuses).toEqual([202, 403, 403]);
  });
});

test('a database outage during a batch leaves whole batches or none, and no 202 without its rows', async () => {
  const to = await app.addWebhook();
  const accepted = new Set<string>();
  const sent: string[] = [];
  for (let round = 0; round < 4; round++) {
    const loads = Array.from({ length: 12 }, async (_, i) => {
      const name = `"batch ${round}.${i}"`;
      sent.push(name);
      const { status } = await post(`${name}\n`.repeat(30), to);
      expect([202, 503]).toContain(status);
      if (status === 202) accepted.add(name);
    });
    await app.cutOff();
    await Promise.all(loads);
    await app.restore();
    await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  }
  const stored = new Map<string, number>();
  for (const { body } of await rowsOf(to)) stored.set(body.toString(), (stored.get(body.toString()) ?? 0) + 1);
  for (const name of sent) expect([name, stored.get(name) ?? 0]).toEqual([name, stored.has(name) ? 30 : 0]);
  expect([...accepted].filter((name) => !stored.has(name))).toEqual([]);
  expect(await app.metric('weir_body_bytes_held')).toBe(0);
});
