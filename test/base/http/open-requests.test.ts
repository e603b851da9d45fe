/** Requests before sign-in: small bodies, a limit for each client address, and short responses to hostile ones. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAgentApp } from '../../helpers/agents.ts';
import type { TestApp } from '../../helpers/app.ts';
import { type RawAnswer, RawClient } from '../../helpers/requests.ts';
import { ofTest } from '../../helpers/shared.ts';

const CAP_BYTES = 16_384;
const ANSWER_BYTES_MAX = 65_536;
const MIB = 1_048_576;

let app: TestApp;
let hosts = 0;

/** Sends one body on a new connection, by default from a new address. */
async function post(path: string, body: string, from = `127.0.2.${++hosts}`): Promise<RawAnswer> {
  const client = await RawClient.connect(app.port, from);
  void client.send(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  const answer = await client.answer();
  client.destroy();
  return answer!;
}

/** Cut to the maximum length after the last complete part. */
const repeated = (bytes: number, part: (i: number) => string) => {
  let text = '';
  for (let i = 0; text.length + 20 < bytes; i++) text += part(i);
  return text;
};
const unknownMembers = (bytes: number) => `{"email":"a@b.test"${repeated(bytes - 30, (i) => `,"${i}":0`)}}`;
const hostile: [what: string, body: (bytes: number) => string][] = [
  ['unknown members', unknownMembers],
  ['unknown members with long names', (bytes) => `{"${'~'.repeat(bytes - 20)}":0}`],
  ['a list', (bytes) => `[${repeated(bytes - 30, () => '0,')}0]`],
  ['brackets', (bytes) => '['.repeat(bytes)],
  ['a text', (bytes) => JSON.stringify('x'.repeat(bytes - 2))],
  ['no JSON', (bytes) => `[${'1,'.repeat(bytes / 2 - 1)}]`],
  ['a form', (bytes) => 'a&'.repeat(bytes / 2)],
];

const API = ['/api/v1/session', '/api/v1/setup', '/api/v1/agent/session'];
const PAGES = ['/sign-in', '/setup'];

describe('a body before sign-in', () => {
  beforeAll(async () => {
    app = await startAgentApp();
  });
  afterAll(() => app.stop());

  test.each([...API, ...PAGES])('of 16 KiB is read, and one byte more is 413, at %s', async (path) => {
    const text = `{"email":"${'x'.repeat(CAP_BYTES)}`;
    const read = await post(path, text.slice(0, CAP_BYTES));
    expect([400, 401, 422]).toContain(read.status);
    const refused = await post(path, text.slice(0, CAP_BYTES + 1));
    expect([refused.status, String(refused.body)]).toEqual([413, expect.stringContaining('body_too_large')]);
    expect(String(refused.body)).toContain('exceeds 16 KiB');
  });

  test.each([...API, ...PAGES].flatMap((path) => hostile.map(([what, body]) => [path, what, body] as const)))(
    'at %s of %s gets a short response, at 1 MiB and at the limit',
    async (path, _what, body) => {
      const large = await post(path, body(MIB));
      expect(large.status).toBe(413);
      const small = await post(path, body(CAP_BYTES));
      expect([400, 401, 422]).toContain(small.status);
      for (const answer of [large, small]) expect(answer.body.length).toBeLessThan(ANSWER_BYTES_MAX);
    },
  );
});

describe('requests to sign in and set up', () => {
  const MAX = 4;
  beforeAll(async () => {
    app = await startAgentApp({ RATE_LIMIT_SIGN_IN_MAX: MAX, RATE_LIMIT_SIGN_IN_WINDOW_SECONDS: 3_600 });
  });
  afterAll(() => app.stop());

  test('are counted together for each client address, with any body, and one over the limit is 429', async () => {
    const from = '127.0.3.1';
    const bodies = ['{', unknownMembers(CAP_BYTES), 'x'.repeat(CAP_BYTES + 1), 'email=a&password=b'];
    const paths = ['/api/v1/session', '/api/v1/setup', '/setup', '/sign-in'];
    const first = await post(paths[0]!, bodies[0]!, from);
    expect(first.headers['ratelimit-policy']).toBe(`"sign-in";q=${MAX};w=3600`);
    expect(first.headers.ratelimit).toMatch(new RegExp(`^"sign-in";r=${MAX - 1};t=\\d+$`));
    for (let i = 1; i < MAX; i++) expect((await post(paths[i]!, bodies[i]!, from)).status).not.toBe(429);
    for (const path of paths) {
      // Malformed and too large: neither is validated.
      for (const body of ['{', 'x'.repeat(CAP_BYTES + 1)]) {
        const answer = await post(path, body, from);
        expect([answer.status, String(answer.body)]).toEqual([429, expect.stringContaining('rate_limited')]);
        expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
        expect(answer.headers.ratelimit).toMatch(/^"sign-in";r=0;/);
      }
    }
    // Agents have a separate limit, and reads are not limited.
    expect((await post('/api/v1/agent/session', '{"credential":"x"}', from)).status).toBe(401);
    const client = await ofTest(RawClient.connect(app.port, from));
    void client.send('GET /sign-in HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await client.answer())!.status).toBe(200);
  });

  test('do not affect another client address', async () => {
    expect((await post('/api/v1/session', '{', '127.0.3.2')).status).toBe(400);
  });
});
