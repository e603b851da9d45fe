import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createCredential, parseCredential } from '../../server/model/credential.ts';

test('a new credential parses to its stored parts', () => {
  const { text, ...stored } = createCredential('wa');
  expect(text).toMatch(/^wa_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/);
  expect(parseCredential('wa', text)).toEqual(stored);
  expect(stored.secretHash).toEqual(createHash('sha256').update(text.slice(16, 59)).digest());
});

test('all credentials differ', () => {
  const made = Array.from({ length: 100 }, () => createCredential('wa'));
  expect(new Set(made.map(({ lookupId }) => lookupId)).size).toBe(100);
  expect(new Set(made.map(({ secretHash }) => secretHash.toString('hex'))).size).toBe(100);
});

test('a mistyped character is detected without a query', () => {
  const { text } = createCredential('wa');
  for (let i = 0; i < text.length; i++) {
    const other = text[i] === 'x' ? 'y' : 'x';
    expect(parseCredential('wa', text.slice(0, i) + other + text.slice(i + 1)), `at ${i}`).toBeNull();
  }
});

test('two exchanged characters are detected', () => {
  const { text } = createCredential('wa');
  for (let i = 16; i < text.length - 1; i++) {
    if (text[i] === text[i + 1]) continue;
    expect(parseCredential('wa', text.slice(0, i) + text[i + 1] + text[i] + text.slice(i + 2)), `at ${i}`).toBeNull();
  }
});

describe('a value of another form is not a credential', () => {
  const { text } = createCredential('wa');
  test.each([
    ['nothing', ''],
    ['the prefix alone', 'wa_'],
    ['another prefix', text.replace('wa_', 'wu_')],
    ['a prefix in capitals', text.replace('wa_', 'WA_')],
    ['one character less', text.slice(0, -1)],
    ['one character more', `${text}0`],
    ['a blank before it', ` ${text}`],
    ['a line end behind it', `${text}\n`],
    ['another one on its next line', `${text}\n${text}`],
    ['a look-alike letter', text.replace(/.$/, 'а')],
    ['very much', 'wa_'.repeat(100_000)],
  ])('%s', (_what, other) => {
    expect(parseCredential('wa', other)).toBeNull();
  });
});
