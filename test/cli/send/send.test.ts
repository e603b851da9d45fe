import { createHmac } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { define } from '../../../server/cli/send/send.ts';
import type { SendSummary } from '../../../server/cli/send/summary.ts';
import { freePort, listening } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { startCommand, type World } from '../command.ts';

const SECRET = 'a secret between friends';

interface Arrived {
  atMs: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  signed: boolean;
}

/** The receiver: verifies signatures with its own HMAC; `answer` responds to the request with that number (from 0). */
type Answer = (response: ServerResponse, number: number, arrived: Arrived) => void;

const directory = temporaryDirectory();
const accept: Answer = (response, _number, { signed }) => reply(response, signed ? 202 : 403);

function reply(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, headers).end('{"id":"01890000-0000-7000-8000-000000000000"}');
}

async function receiver(answer: Answer = accept, signatureHeader = 'x-hub-signature-256') {
  const arrived: Arrived[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const expected = `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`;
    const signed = request.headers[signatureHeader] === expected;
    const number = arrived.push({ atMs: performance.now(), headers: request.headers, body, signed }) - 1;
    answer(response, number, arrived[number]!);
  });
  return { url: `http://127.0.0.1:${await listening(server)}/in/one`, arrived };
}

/** Runs `weir send` with these arguments and collects its output. */
async function send(args: string[], { environment = { WEIR_SECRET: SECRET }, ...world }: Partial<World> = {}) {
  const ended = await startCommand(define, args, { directory, environment, ...world }).ended;
  const summary = args.includes('--json') && ended.out !== '' ? (JSON.parse(ended.out) as SendSummary) : null;
  return { ...ended, summary };
}

describe('payloads', () => {
  test.each([
    ['a.json', 'application/json'],
    ['a.JSON', 'application/json'],
    ['a.ndjson', 'application/x-ndjson'],
    ['a.txt', 'text/plain; charset=utf-8'],
    ['a.bin', 'application/octet-stream'],
    ['a', 'application/octet-stream'],
  ])('%s is sent byte for byte as %s, signed', async (name, contentType) => {
    const bytes = Buffer.from([0, 255, 10, 13, 123, 0xc3, 0x28, 125, 10]);
    await writeFile(join(directory, name), bytes);
    const { url, arrived } = await receiver();
    expect(await send([url, name])).toMatchObject({ exitCode: 0 });
    expect(arrived).toMatchObject([{ body: bytes, signed: true, headers: { 'content-type': contentType } }]);
  });

  test('an empty file is sent as an empty body, signed', async () => {
    await writeFile(join(directory, 'empty'), '');
    const { url, arrived } = await receiver();
    expect(await send([url, 'empty'])).toMatchObject({ exitCode: 0 });
    expect(arrived).toMatchObject([{ signed: true, headers: { 'content-length': '0' } }]);
  });

  test.each([
    ['from a pipe\n', 'application/octet-stream'],
    ['{"from":"a pipe"}\n', 'application/json'],
  ])('standard input is sent for -, with a content type by its content: %j', async (stdin, contentType) => {
    const { url, arrived } = await receiver();
    await send([url, '-'], { stdin });
    expect(arrived.map(({ body }) => String(body))).toEqual([stdin]);
    expect(arrived[0]!.headers['content-type']).toBe(contentType);
  });

  test('a small JSON document is sent by default', async () => {
    const { url, arrived } = await receiver();
    await send([url]);
    expect(JSON.parse(String(arrived[0]!.body))).toHaveProperty('message');
    expect(arrived[0]!.headers['content-type']).toBe('application/json');
  });

  test('--count repeats the files in turn', async () => {
    for (const name of ['a', 'b']) await writeFile(join(directory, name), name);
    const { url, arrived } = await receiver();
    await send([url, 'a', 'b', '--count', '5', '--concurrency', '1']);
    expect(arrived.map(({ body }) => String(body))).toEqual(['a', 'b', 'a', 'b', 'a']);
  });

  test('--github-examples sends every example of GitHub’s events with GitHub’s headers', async () => {
    const { url, arrived } = await receiver();
    const { summary } = await send([url, '--github-examples', '--json']);
    expect(summary!.statuses).toEqual({ 202: arrived.length });
    expect(arrived.length).toBeGreaterThan(300);
    expect(new Set(arrived.map(({ headers }) => headers['x-github-delivery'])).size).toBe(arrived.length);
    expect(arrived.map(({ headers }) => headers['x-github-event'])).toContain('pull_request');
    expect(arrived.every(({ headers }) => headers['user-agent']!.startsWith('GitHub-Hookshot/'))).toBe(true);
  });
});

describe('the secret', () => {
  test('--secret takes precedence over WEIR_SECRET', async () => {
    const { url, arrived } = await receiver();
    await send([url, '--secret', SECRET], { environment: { WEIR_SECRET: 'another' } });
    expect(arrived[0]!.signed).toBe(true);
  });

  test('the signature is sent only in the header of --signature-header', async () => {
    const { url, arrived } = await receiver(accept, 'x-webhook-signature');
    await send([url, '--signature-header', 'X-Webhook-Signature']);
    expect(arrived[0]!.signed).toBe(true);
    expect(arrived[0]!.headers).not.toHaveProperty('x-hub-signature-256');
  });

  test('a wrong one is reported as 403, with exit code 1', async () => {
    const { url } = await receiver();
    const { exitCode, out, message } = await send([url, '--secret', 'wrong', '--count', '3']);
    expect(exitCode).toBe(1);
    expect(out).toContain('  403  3\n');
    expect(message).toBe('3 of 3 requests were not answered with a 2xx status.');
  });
});

describe('refusals and errors', () => {
  test('429 is retried after Retry-After by all connections, with the same delivery id', async () => {
    const { url, arrived } = await receiver((response, number) =>
      number === 0 ? reply(response, 429, { 'Retry-After': '1' }) : reply(response, 202),
    );
    const { exitCode, summary, err } = await send([
      url,
      '--github-examples',
      '--count',
      '3',
      '--concurrency',
      '1',
      '--json',
    ]);
    expect(exitCode).toBe(0);
    expect(summary).toMatchObject({ sent: 3, statuses: { 202: 3 }, errors: {}, repeated: { 429: 1 } });
    expect(arrived[1]!.atMs - arrived[0]!.atMs).toBeGreaterThan(990);
    expect(arrived[1]!.headers['x-github-delivery']).toBe(arrived[0]!.headers['x-github-delivery']);
    expect(err).toBe('429: waiting 1 s before the retry; --no-wait counts instead of waiting.\n');
  });

  test.each([429, 503])('--no-wait counts %i', async (status) => {
    const { url, arrived } = await receiver((response) => reply(response, status, { 'Retry-After': '60' }));
    const { exitCode, summary } = await send([url, '--count', '4', '--no-wait', '--json']);
    expect(exitCode).toBe(1);
    expect(summary).toMatchObject({ sent: 4, statuses: { [status]: 4 }, repeated: {} });
    expect(arrived).toHaveLength(4);
  });

  test('the reason of a refusal is printed beside its status', async () => {
    const problem = JSON.stringify({ code: 'signature_mismatch', detail: 'The signature\u001b[2J differs.' });
    const { url } = await receiver((response) =>
      response.writeHead(403, { 'Content-Type': 'application/problem+json' }).end(problem),
    );
    const { exitCode, out } = await send([url, '--count', '2']);
    expect(exitCode).toBe(1);
    expect(out).toContain('  403  2  The signature\\x1b[2J differs.\n');
  });

  test('503 is abandoned after ten tries', async () => {
    const { url, arrived } = await receiver((response) => reply(response, 503, { 'Retry-After': '0' }));
    const { exitCode, summary } = await send([url, '--json']);
    expect(exitCode).toBe(1);
    expect(summary).toMatchObject({ sent: 1, statuses: { 503: 1 }, repeated: { 503: 9 } });
    expect(arrived).toHaveLength(10);
  });

  test('a lost connection is counted by its error and retried', async () => {
    const { url, arrived } = await receiver((response, number) =>
      number === 0 ? response.socket!.destroy() : reply(response, 202),
    );
    const { exitCode, out } = await send([url]);
    expect(exitCode).toBe(0);
    expect(out).toContain('Retried after: ECONNRESET (1)\nLost or refused connections: ECONNRESET (1)\n');
    expect(arrived).toHaveLength(2);
  });

  test('a refused connection is counted by its error', async () => {
    const url = `http://127.0.0.1:${await freePort()}/in/one`;
    const { exitCode, summary } = await send([url, '--count', '2', '--no-wait', '--json']);
    expect(exitCode).toBe(1);
    expect(summary).toMatchObject({ sent: 2, statuses: {}, errors: { ECONNREFUSED: 2 } });
  });
});

describe('pace', () => {
  test('--rate sends no request early', async () => {
    const { url, arrived } = await receiver();
    const { summary } = await send([url, '--count', '11', '--rate', '50', '--json']);
    expect(summary!.seconds).toBeGreaterThan(0.195);
    // A timer may fire a millisecond early; the first request also includes the connection.
    expect(arrived[10]!.atMs - arrived[0]!.atMs).toBeGreaterThan(100);
  });

  test('at most --concurrency requests are in progress at a time', async () => {
    const held: ServerResponse[] = [];
    let most = 0;
    const { url } = await receiver((response) => {
      most = Math.max(most, held.push(response));
      if (held.length === 4) for (const waiting of held.splice(0)) reply(waiting, 202);
    });
    expect(await send([url, '--count', '12', '--concurrency', '4'])).toMatchObject({ exitCode: 0 });
    expect(most).toBe(4);
  });

  test('Ctrl-C stops sending, aborts hanging requests, and prints the summary', async () => {
    const { url, arrived } = await receiver((response, number) => {
      if (number < 3) reply(response, 202);
      else process.emit('SIGINT');
    });
    const { exitCode, summary, message } = await send([url, '--count', '100', '--concurrency', '1', '--json']);
    expect(exitCode).toBe(1);
    expect(summary).toMatchObject({ sent: 3, statuses: { 202: 3 }, errors: {}, interrupted: true });
    expect(message).toBe('Stopped after 3 of 100 requests.');
    expect(arrived).toHaveLength(4);
  });

  test('Ctrl-C ends a long wait', async () => {
    const { url } = await receiver((response) => {
      reply(response, 429, { 'Retry-After': '86400' });
      response.once('close', () => setImmediate(() => process.emit('SIGINT')));
    });
    expect(await send([url, '--json'])).toMatchObject({ exitCode: 1, summary: { sent: 0, interrupted: true } });
  });
});

test('a progress bar is shown on a terminal, not in a pipe', async () => {
  const { url } = await receiver();
  expect((await send([url, '--count', '7'], { terminal: true })).err).toContain('7/7');
  expect((await send([url, '--count', '7'])).err).toBe('');
});

describe('usage', () => {
  test.each([
    [['nowhere'], '"nowhere" is not an http or https URL.'],
    [['ftp://example.org/'], '"ftp://example.org/" is not an http or https URL.'],
    [['http://a/', 'absent.json'], 'absent.json cannot be read: there is no such file.'],
    [['http://a/', '.'], '. cannot be read: it is a directory.'],
    [['http://a/', '-', '-'], '- (standard input) was given more than once, but it can be read only once.'],
    [
      ['http://a/', '--count', '0'],
      /'--count <n>' argument '0' is invalid. Give a whole number from 1 to 1000000000\.$/,
    ],
    [['http://a/', '--count', '1e3'], /Give a whole number from 1 to 1000000000\.$/],
    [['http://a/', '--concurrency', '10001'], /Give a whole number from 1 to 10000\.$/],
    [['http://a/', '--rate', '0'], /Give a number above 0, up to 1000000 requests a second\.$/],
    [['http://a/', '--rate', 'fast'], /Give a number above 0/],
    [['http://a/', '--signature-header', 'a b'], /Give a header name of letters, digits and hyphens\.$/],
  ])('%j: exit code 2 and a reason', async (args, message) => {
    const wanted = typeof message === 'string' ? message : expect.stringMatching(message);
    expect(await send(args)).toMatchObject({ exitCode: 2, message: wanted, out: '' });
  });

  test.each([{}, { WEIR_SECRET: '' }])('without a secret (%j) nothing is sent', async (environment) => {
    const { url, arrived } = await receiver();
    expect(await send([url], { environment })).toMatchObject({
      exitCode: 2,
      message: 'The secret is empty; give --secret, set WEIR_SECRET, or give --unsigned.',
    });
    expect(arrived).toEqual([]);
  });

  test('--unsigned sends without a signature, and is refused beside a secret', async () => {
    const { url, arrived } = await receiver((response) => reply(response, 202));
    expect(await send([url, '--unsigned'])).toMatchObject({ exitCode: 0 });
    expect(arrived).toHaveLength(1);
    expect(arrived[0]!.headers).not.toHaveProperty('x-hub-signature-256');
    expect(await send([url, '--unsigned', '--secret', 'x'])).toMatchObject({ exitCode: 2 });
  });
});
