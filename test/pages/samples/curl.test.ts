/** The command is run by a real shell with a real curl, and the received request is compared. */
import { execFile, execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isAsymmetric } from '../../../server/model/signatures/keys.ts';
import { presets } from '../../../server/model/signatures/presets.ts';
import { shellWord, signedCurl } from '../../../server/pages/samples/curl.ts';
import { tryItOf, webhookSamples } from '../../../server/pages/samples/samples.ts';

const SECRET = 'geheim';
const definition = { algorithm: 'hmac-sha256', header: 'X-Sig', prefix: 'sha256=' } as const;
const run = promisify(execFile);
let server: Server;
let url: string;
let received: { headers: NodeJS.Dict<string | string[]>; body: Buffer }[] = [];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    received.push({ headers: request.headers, body: await buffer(request) });
    response.end('ok');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in/1`;
});
afterAll(() => server.close());

/** As a script, and as pasted into an interactive shell with history expansion. */
const preparations = ['', 'set -o history -o histexpand\n: first\n'];

/** Runs the command in every way. */
async function runLine(line: string): Promise<void> {
  for (const preparation of preparations) {
    const running = run('bash', [], { env: { ...process.env, WEIR_SECRET: SECRET, HISTFILE: '' } });
    running.child.stdin!.end(`${preparation}${line} -sS\n`);
    expect((await running).stdout).toBe('ok');
  }
}

const controls = Array.from({ length: 31 }, (_, index) => String.fromCharCode(index + 1)).join('');
const c1 = Array.from({ length: 33 }, (_, index) => String.fromCharCode(index + 0x7f)).join('');
const texts: [string, string][] = [
  ['plain', 'plain'],
  ['spaces', 'with space'],
  ['quotes', `it's "quoted" '`],
  ['expansions', '$(reboot) `reboot` "$HOME" \\ \\\\ * ~ {a,b} !! !x'],
  ['lines', 'two\nlines\n\n'],
  ['lines with an exclamation mark, which bash expands on the second line', "a 'b\n!x' !! \\"],
  ['carriage returns and tabs', 'a\r\n\tb'],
  ['nothing', ''],
  ['an option', '-d'],
  ['a file of curl', '@/etc/passwd'],
  ['a command of zsh', '=ls'],
  ['other alphabets', 'ünïcode 🌊 👩‍🚀 שלום'],
  ['C0', controls],
  ['DEL and C1', c1],
  ['C0 before digits of an escape', '\x1b0 \x01f \x7fa'],
  ['the end of a bracketed paste', 'x\x1b[201~\nid > /tmp/owned\n'],
  ['an interrupt', 'x\x03\nid > /tmp/owned\n'],
  ['overrides of direction', 'a\u202eb\u2066c\u200f'],
  ['invisible characters', 'a\u200b\u00ad\ufeff\u2028\u2029\u{e0041}'],
];

describe.each(texts)('of a text with %s', (_, text) => {
  test('a shell reads the quoted word unchanged', () => {
    const shown = execFileSync('bash', ['-c', `printf %s ${shellWord(text)}`]);
    expect(shown).toEqual(Buffer.from(text));
    expect(shellWord(text)).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  });

  test('curl sends the bytes with their signature', async () => {
    received = [];
    const body = Buffer.from(text);
    const line = signedCurl({ url, body, contentType: 'text/plain', definition })!;
    // The line ends belong to the command.
    expect(line.split('\n')).toHaveLength(5);
    expect(line).not.toMatch(/[^\P{C}\n]/u);
    await runLine(line);
    const signature = `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`;
    expect(received).toHaveLength(preparations.length);
    for (const got of received) {
      expect(got.body).toEqual(body);
      expect([got.headers['x-sig'], got.headers['content-type']]).toEqual([signature, 'text/plain']);
    }
  });
});

test('a word without invisible characters is valid in every POSIX shell', () => {
  for (const text of [`it's`, '$(reboot)', '=ls', '!x', 'ünïcode 🌊'])
    expect(execFileSync('sh', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' })).toBe(text);
});

test('names and types of headers execute nothing', async () => {
  received = [];
  const header = "x-`touch`|~'$home!";
  const contentType = 'text/plain; a="$(id)`id`\\"\t!x';
  await runLine(signedCurl({ url, body: Buffer.from('a'), contentType, definition: { ...definition, header } })!);
  expect(received[0]!.headers).toMatchObject({ 'content-type': contentType });
  expect(received[0]!.headers[header]).toMatch(/^sha256=[0-9a-f]{64}$/);
});

test('a body with NUL has no command', () => {
  expect(signedCurl({ url, body: Buffer.from('a\0b'), contentType: 'text/plain', definition: 'none' })).toBeNull();
});

test('without a secret the command has no signature', () => {
  const line = signedCurl({ url, body: Buffer.from('a'), contentType: 'text/plain', definition: 'none' });
  expect(line).not.toContain('openssl');
});

test('every preset has a command, except those that are code, put a time into the body or have a private key', () => {
  const command = (given: (typeof presets)[number]['definition']) =>
    signedCurl({ url, body: Buffer.from('{}'), contentType: 'text/plain', definition: { header: 'x-own', ...given } });
  const keyed = presets.filter(({ definition }) => isAsymmetric(definition.algorithm));
  const without = presets.filter((one) => command(one.definition) === null && !keyed.includes(one));
  expect(keyed.filter(({ definition }) => command(definition) !== null)).toEqual([]);
  expect(without.map(({ name }) => name)).toEqual(['linear', 'mandrill', 'mailgun', 'microsoft-graph', 'twilio']);
});

describe('the commands on the page of a webhook', () => {
  const target = { url: 'https://x/in/1', scheme_definition: null, public_key: null, has_secret: true };
  const webhook = { ...target, signature_header: null };
  const languages = (fields: object) =>
    webhookSamples({ ...webhook, signature_scheme: 'sha256', ...fields }, 'npx weir').map(({ language }) => language);

  test.each([
    ['the default scheme', {}, ['curl']],
    ['a scheme of a sender', { signature_scheme: 'stripe' }, ['Weir', 'curl']],
    ['a scheme that is code', { signature_scheme: 'twilio' }, ['Weir']],
    ['a scheme that this build does not know', { signature_scheme: 'of-later' }, ['Weir']],
    [
      'a custom scheme, which weir send has no name for',
      { signature_scheme: 'custom', scheme_definition: definition },
      ['curl'],
    ],
  ])('for %s', (_, fields, expected) => expect(languages(fields)).toEqual(expected));

  test('give weir send what the scheme needs', () => {
    const key = { signature_scheme: 'discord', public_key: 'ab'.repeat(32), has_secret: false };
    const token = { signature_scheme: 'token', signature_header: 'x-own' };
    expect(tryItOf({ ...webhook, ...key }, 'npx weir')).toBe(
      'npx weir send https://x/in/1 --scheme discord --private-key FILE',
    );
    expect(tryItOf({ ...webhook, ...token }, 'npx weir')).toBe(
      'npx weir send https://x/in/1 --scheme token --signature-header x-own',
    );
  });
});
