/**
 * What the parser of uWebSockets.js 3.0.6 does not take, as the guide Senders says. It runs before any code of Weir. If one of these tests
 * fails, the library has improved: shorten the guide.
 */
import { expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { hasLaterParser, RawClient } from '../../helpers/requests.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
const webhook = shared(() => app.addWebhook({ secret: null }));

const get = (line: string) => `${line}\r\nHost: x\r\n\r\n`;
const post = (body: string, version = '1.1') =>
  `POST ${webhook.path} HTTP/${version}\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
/** The error page of the parser: 505 on Node 20, 400 in later releases. */
const REFUSED = 'refused by the parser';
/** On Node 24 an empty line before a request gets no response, until the connection is closed because it is idle. */
const EMPTY_LINE = hasLaterParser ? [] : [REFUSED];

/** The status of each response on one connection, until it is closed. Each part is sent after the response to the one before. */
async function statuses(...parts: string[]): Promise<(number | string)[]> {
  const client = await ofTest(RawClient.connect(app.port));
  const found: (number | string)[] = [];
  for (const part of parts) {
    await client.send(part);
    const answer = await client.answer();
    if (answer === null) return found;
    found.push(
      [400, 505].includes(answer.status) && answer.headers['x-request-id'] === undefined ? REFUSED : answer.status,
    );
  }
  if (found.at(-1) === REFUSED) await client.ended();
  return found;
}

async function storedBodies(): Promise<string[]> {
  const rows = await app.sql<{ body: string }>(
    `with gone as (delete from events returning id, body) select convert_from(body, 'UTF8') as body from gone order by id`,
  );
  return rows.map(({ body }) => body);
}

test.each<[what: string, parts: () => string[], answers: (number | string)[], stored: string[]]>([
  ['requests one after the other', () => [post('one'), post('two')], [202, 202], ['one', 'two']],
  ['an empty line after a body', () => [post('one'), `\r\n${post('two')}`], [202, ...EMPTY_LINE], ['one']],
  ['an empty line before the first request', () => [`\r\n${post('one')}`], EMPTY_LINE, []],
  [
    'a line end after a body that its length does not count',
    () => [`${post('one')}\r\n`, post('two')],
    [202, ...EMPTY_LINE],
    ['one'],
  ],
  ['the absolute form of a target', () => [get(`GET http://127.0.0.1:${app.port}/healthz HTTP/1.1`)], [REFUSED], []],
  ['HTTP/1.0', () => [post('one', '1.0')], [REFUSED], []],
  ['OPTIONS *', () => [get('OPTIONS * HTTP/1.1')], [REFUSED], []],
])('%s', async (_what, parts, answers, stored) => {
  expect(await statuses(...parts())).toEqual(answers);
  expect(await storedBodies()).toEqual(stored);
});

test('two events in one write end the connection without a response; the first may be stored, the second is not', async () => {
  expect(await statuses(post('one') + post('two'))).toEqual([]);
  // Committed after the first.
  expect(await statuses(post('three'))).toEqual([202]);
  expect((await storedBodies()).filter((body) => body !== 'one')).toEqual(['three']);
});

const withFields = (count: number) =>
  `GET /healthz HTTP/1.1\r\n${Array.from({ length: count }, (_, i) => `X-${i}: 1\r\n`).join('')}Host: x\r\n\r\n`;

test('98 header fields are read, and a request with 99 is answered 431', async () => {
  expect(await statuses(withFields(97))).toEqual([200]);
  const client = await ofTest(RawClient.connect(app.port));
  await client.send(withFields(98));
  if (!hasLaterParser) {
    // The parser takes it for an unfinished head, and answers it when it reaches the limit of one.
    await expect(client.answer({ timeoutMs: 500 })).rejects.toThrow('no answer after 500 ms; so far: ');
    void client.send('x'.repeat(131_072));
  }
  expect((await client.answer())?.status).toBe(431);
});
