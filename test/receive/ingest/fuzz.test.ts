import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { fuzzRuns } from '../../helpers/fuzz.ts';
import { type RawAnswer, RawClient } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ WEBHOOK_MAX_PAYLOAD_BYTES: 4_000, HEADER_BYTES_MAX: 2_000 }));
const signed = shared(() => app.addWebhook());
const open = shared(() => app.addWebhook({ secret: null }));

/** How long an incomplete request may wait before the test abandons it. */
const QUIET_MS = 40;

const token = fc.string({ minLength: 1, maxLength: 20, unit: fc.constantFrom(...'abcXYZ019-_.!#~') });
const anyBytes = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('latin1'));
/** Characters that a field can contain without ending it. */
const fieldValue = anyBytes.map((text) => text.replace(/[\r\n]/g, ''));
const telling = fc.constantFrom(
  'Content-Length',
  'Transfer-Encoding',
  'X-Hub-Signature-256',
  'X-Webhook-Signature',
  'X-Request-Id',
  'X-Forwarded-For',
  'Forwarded',
  'Content-Type',
  'Connection',
  'Expect',
  'Upgrade',
  'Host',
);
const tellingValue = fc.constantFrom(
  '0',
  '5',
  '-1',
  '1e3',
  '99999999999999999999',
  'chunked',
  'gzip, chunked',
  'close',
  '100-continue',
  'websocket',
);
const field = fc.tuple(fc.oneof(token, telling), fc.oneof(fieldValue, tellingValue)).map((pair) => pair.join(': '));
const path = fc.oneof(
  fc.constantFrom('signed', 'open', 'open?a=b', 'signed/', '/healthz', '/readyz', '*', 'http://x/healthz'),
  anyBytes.map((text) => `/in/${text.replace(/[\r\n ]/g, '')}`),
);
const method = fc.oneof(
  { weight: 4, arbitrary: fc.constant('POST') },
  fc.constantFrom('GET', 'HEAD', 'PUT', 'OPTIONS'),
  token,
);

/** A request that is valid in HTTP, or almost: any fields and any body. */
const request = fc
  .record({
    method,
    path,
    fields: fc.array(field, { maxLength: 6 }),
    body: fc.uint8Array({ maxLength: 5_000 }),
    honest: fc.boolean(),
  })
  .map(({ method, path, fields, body, honest }) => ({
    toHead: method === 'HEAD',
    bytes: (places: Record<string, string>) => {
      const where = /^(signed|open)/.test(path) ? path.replace(/^\w+/, (name) => places[name]!) : path;
      const lines = [`${method} ${where} HTTP/1.1`, 'Host: x', ...fields];
      if (honest) lines.push(`Content-Length: ${body.length}`);
      return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body]);
    },
  }));

/** The response, null for a closed connection, undefined when the server waits for more. */
async function exchange(bytes: Uint8Array, toHead: boolean): Promise<RawAnswer | null | undefined> {
  const client = await RawClient.connect(app.port);
  void client.send(bytes);
  const answer = await client.answer({ toHead, timeoutMs: QUIET_MS }).catch(() => undefined);
  client.destroy();
  return answer;
}

function expectGoodAnswer(answer: RawAnswer | null | undefined, toHead: boolean): void {
  if (!answer) return;
  // A response of the library's parser.
  if (answer.headers['x-request-id'] === undefined) return expect([400, 431, 505]).toContain(answer.status);
  expect([200, 202, 400, 403, 404, 405, 411, 413, 431]).toContain(answer.status);
  if (toHead) return;
  const document = JSON.parse(answer.body.toString());
  if (answer.status >= 400) expect(document).toMatchObject({ status: answer.status, code: expect.any(String) });
}

/** Prints the request, which a mapped counterexample hides. */
async function check(bytes: Buffer, toHead: boolean): Promise<void> {
  const answer = await exchange(bytes, toHead);
  try {
    expectGoodAnswer(answer, toHead);
  } catch (error) {
    throw new Error(`${JSON.stringify(bytes.toString('latin1'))} was answered ${answer?.text}`, { cause: error });
  }
}

async function expectUnharmed(): Promise<void> {
  expect((await fetch(`${app.url}/readyz`)).status).toBe(200);
  expect((await fetch(open.url, { method: 'POST', body: 'still here' })).status).toBe(202);
  expect(
    app.logLines.filter((line) => /"event":"(request_failed|database_refused|thread_failed|crash)"/.test(line)),
  ).toEqual([]);
}

test('for any fields and bodies, the response is one of the contract, or the connection is closed', async () => {
  await fc.assert(
    fc.asyncProperty(request, async ({ bytes, toHead }) => {
      await check(bytes({ signed: signed.path, open: open.path }), toHead);
    }),
    { numRuns: fuzzRuns(60) },
  );
  await expectUnharmed();
});

test('any bytes are handled', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 2_000 }), fc.boolean(), async (bytes, lineEnd) => {
      const end = Buffer.from(lineEnd ? '\r\n\r\n' : '');
      await check(Buffer.concat([bytes, end]), false);
    }),
    { numRuns: fuzzRuns(20) },
  );
  await expectUnharmed();
});

test('any body is accepted with its exact size', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 4_000 }),
      fc.mixedCase(fc.constant('application/json')),
      async (body, type) => {
        const request = { method: 'POST', body: Buffer.from(body), headers: { 'content-type': type } };
        const response = await fetch(open.url, request);
        expect([response.status, ((await response.json()) as { bytes: number }).bytes]).toEqual([202, body.length]);
      },
    ),
    { numRuns: fuzzRuns(30) },
  );
});

test('a request split at any byte is the same request', async () => {
  const whole = Buffer.from(`POST ${open.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world`);
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: whole.length - 1 }), { maxLength: 4 }), async (cuts) => {
      const client = await RawClient.connect(app.port);
      const edges = [0, ...cuts.sort((a, b) => a - b), whole.length];
      for (let i = 1; i < edges.length; i++) await client.send(whole.subarray(edges[i - 1], edges[i]));
      expect((await client.answer())?.status).toBe(202);
      client.destroy();
    }),
    { numRuns: fuzzRuns(15) },
  );
});
