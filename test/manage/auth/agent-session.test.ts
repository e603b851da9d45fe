import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { readSession, signSession } from '../../../server/manage/auth/agent-session.ts';

const key = Buffer.alloc(32, 1);
const otherKey = Buffer.alloc(32, 2);
const nowMs = Date.UTC(2026, 5, 1);
const claim = { agentId: randomUUID(), generation: 3, expiresAtMs: nowMs + 900_000 };
const token = signSession(claim, key);
/** Read with the current key. */
const read = { ...claim, keyIndex: 0 };
/** Maximum lifetime of a session. */
const longestMs = 900_000;
const base64url = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

test('a session contains its agent, generation and expiry', () => {
  expect(token).toMatch(/^ws_[A-Za-z0-9_-]{79}$/);
  expect(readSession(token, [key], nowMs, longestMs)).toEqual(read);
});

test.each([0x7fffffff, 0xffffffff])('a session of generation %d is valid', (generation) => {
  expect(readSession(signSession({ ...claim, generation }, key), [key], nowMs, longestMs)).toEqual({
    ...read,
    generation,
  });
});

test('a session is valid until its last millisecond', () => {
  expect(readSession(token, [key], claim.expiresAtMs - 1, longestMs)).toEqual(read);
  expect(readSession(token, [key], claim.expiresAtMs, longestMs)).toBeNull();
});

test('a session with a longer lifetime than Weir allows is invalid, even with a correct signature', () => {
  expect(readSession(token, [key], nowMs, longestMs - 1)).toBeNull();
  expect(
    readSession(signSession({ ...claim, expiresAtMs: nowMs + 3_600_000 }, key), [key], nowMs, longestMs),
  ).toBeNull();
});

test('a replaced key still verifies its sessions; an unknown key does not', () => {
  expect(readSession(token, [otherKey, key], nowMs, longestMs)).toEqual({ ...claim, keyIndex: 1 });
  expect(readSession(token, [otherKey], nowMs, longestMs)).toBeNull();
  expect(readSession(token, [], nowMs, longestMs)).toBeNull();
});

test('no single character of a session can be changed: it has exactly one text', () => {
  for (let i = 3; i < token.length; i++)
    for (const other of base64url) {
      if (other === token[i]) continue;
      const tampered = token.slice(0, i) + other + token.slice(i + 1);
      expect(readSession(tampered, [key], nowMs, longestMs), `${other} at ${i}`).toBeNull();
    }
});

test('no single bit of a session can be changed', () => {
  const bytes = Buffer.from(token.slice(3), 'base64url');
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const tampered = Buffer.from(bytes);
    tampered[bit >> 3]! ^= 1 << (bit & 7);
    expect(readSession(`ws_${tampered.toString('base64url')}`, [key], nowMs, longestMs), `bit ${bit}`).toBeNull();
  }
});

test.each([
  ['nothing', ''],
  ['the prefix alone', 'ws_'],
  ['another prefix', token.replace('ws_', 'wa_')],
  ['one character less', token.slice(0, -1)],
  ['one character more', `${token}A`],
  ['padding', `${token.slice(0, -1)}=`],
  ['a line end in it', `${token.slice(0, -1)}\n`],
  [
    'the alphabet of ordinary base64',
    `ws_${Buffer.from(token.slice(3), 'base64url').toString('base64').replace('=', '')}?`,
  ],
  ['very much', `ws_${'A'.repeat(1_000_000)}`],
])('a value of another form is not a session: %s', (_what, other) => {
  expect(readSession(other, [key], nowMs, longestMs)).toBeNull();
});
