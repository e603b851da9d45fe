import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { shellWord, signedCurl } from '../../server/core/curl.ts';

test.each([
  'plain',
  'with space',
  `it's`,
  `'`,
  '$(reboot) `reboot` "$HOME" \\',
  'two\nlines',
  '*',
  '',
  '-n',
  'ünïcode 🌊',
])('a shell reads %j as it is', (text) => {
  expect(execFileSync('sh', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' })).toBe(text);
});

test('the line signs the body with the secret of the environment', () => {
  const body = `{"it's":"$HOME"}`;
  const line = signedCurl({
    url: 'http://127.0.0.1/in/1',
    body,
    contentType: 'application/json',
    signatureHeader: 'X-Sig',
  });
  const shown = execFileSync('sh', ['-c', `curl() { printf '%s\\n' "$@"; }; ${line}`], {
    encoding: 'utf8',
    env: { ...process.env, WEIR_SECRET: 'geheim' },
  });
  const digest = createHmac('sha256', 'geheim').update(body).digest('hex');
  expect(shown.split('\n')).toEqual([
    'http://127.0.0.1/in/1',
    '-H',
    `X-Sig: sha256=${digest}`,
    '-H',
    'Content-Type: application/json',
    '--data-binary',
    body,
    '',
  ]);
});

test('without a secret nothing is signed', () => {
  const line = signedCurl({ url: 'http://x/', body: 'a', contentType: 'text/plain', signatureHeader: null });
  expect(line).not.toContain('openssl');
});
