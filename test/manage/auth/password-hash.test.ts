import { hash as argon2, parseOptions } from '@node-rs/argon2';
import { describe, expect, test } from 'vitest';
import {
  generatePassword,
  HASHES_AT_A_TIME,
  HASHING_WORK_MAX,
  type Hasher,
  isOutdated,
  LANES,
  MEMORY_KIB,
  PASSES,
  Passwords,
} from '../../../server/manage/auth/password-hash.ts';

const within = async <T>(work: (hasher: Hasher) => Promise<T>): Promise<T> => (await new Passwords().admit(work))!;

test('a hash is argon2id with parameters recommended by OWASP and a new salt', async () => {
  const hashes = await within((hasher) => Promise.all([hasher.hash('a password'), hasher.hash('a password')]));
  expect(hashes[0]).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  expect(hashes[0]).not.toBe(hashes[1]);
  expect([MEMORY_KIB, PASSES, LANES]).toEqual([19_456, 2, 1]);
  expect(isOutdated(hashes[0]!)).toBe(false);
});

describe('a password is verified', () => {
  test.each([
    ['the same', 'a pässword ﬁt', 'a pässword ﬁt', true],
    ['the same, decomposed', 'a pässword ﬁt', 'a pässword ﬁt'.normalize('NFD'), true],
    ['the same, with compatibility forms taken apart', 'a pässword ﬁt', 'a pässword fit', true],
    ['with another case', 'a password', 'A password', false],
    ['with space more', 'a password', 'a password ', false],
    ['empty', 'a password', '', false],
    ['the same up to a NUL', 'a password', 'a password\0more', false],
    ['longer than other functions look', 'x'.repeat(100), `${'x'.repeat(99)}y`, false],
  ])('%s', async (_what, made, given, fits) => {
    const answer = await within(async (hasher) => hasher.verify(await hasher.hash(made), given));
    expect(answer).toBe(fits);
  });

  test('without a hash with the same parameters, and never matches', async () => {
    let computed = 0;
    const passwords = new Passwords(() => computed++);
    for (const given of ['', 'a password', '\0'.repeat(32)])
      expect(await passwords.admit((hasher) => hasher.verify(null, given))).toBe(false);
    expect(computed).toBe(3);
  });

  test('without a hash in the same time', async () => {
    const times: Record<string, number[]> = { stored: [], nothing: [] };
    await within(async (hasher) => {
      const stored = await hasher.hash('a password');
      for (let round = 0; round < 15; round++)
        for (const [name, hash] of [
          ['stored', stored],
          ['nothing', null],
        ] as const) {
          const startMs = performance.now();
          await hasher.verify(hash, 'another password');
          times[name]!.push(performance.now() - startMs);
        }
    });
    // The fastest round of each, which a busy machine disturbs least. A shortcut would be a thousand times faster.
    const ratio = Math.min(...times.nothing!) / Math.min(...times.stored!);
    expect(ratio).toBeGreaterThan(0.3);
    expect(ratio).toBeLessThan(3);
  });
});

test.each([
  ['less memory', { memoryCost: MEMORY_KIB / 2 }],
  ['fewer passes', { timeCost: 1 }],
  ['another algorithm', { algorithm: 1 }],
])('a hash with %s is outdated', async (_what, options) => {
  const made = await argon2('a password', { memoryCost: MEMORY_KIB, timeCost: PASSES, parallelism: LANES, ...options });
  expect(parseOptions(made)).toMatchObject(options);
  expect(isOutdated(made)).toBe(true);
});

test('few hashes are computed at a time, and work over the limit is refused at once', async () => {
  let begun = 0;
  const passwords = new Passwords(() => begun++);
  const work = Array.from({ length: HASHING_WORK_MAX + 2 }, () =>
    passwords.admit((hasher) => hasher.verify(null, 'a password')),
  );
  // No hash can end within this turn.
  expect([passwords.admitted, begun]).toEqual([HASHING_WORK_MAX, HASHES_AT_A_TIME]);
  const outcomes = await Promise.all(work);
  expect(outcomes.filter((outcome) => outcome === null)).toHaveLength(2);
  expect([passwords.admitted, begun]).toEqual([0, HASHING_WORK_MAX]);
});

test('failed work releases its slot', async () => {
  const passwords = new Passwords();
  await expect(passwords.admit(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  await expect(passwords.admit((hasher) => hasher.verify('no hash', 'a password'))).rejects.toThrow();
  expect(passwords.admitted).toBe(0);
  expect(await passwords.admit((hasher) => hasher.verify(null, 'a password'))).toBe(false);
});

test('a generated password can be typed and differs each time', () => {
  const made = Array.from({ length: 100 }, generatePassword);
  for (const password of made) expect(password).toMatch(/^([0-9a-hjkmnp-tv-z]{4}-){5}[0-9a-hjkmnp-tv-z]{4}$/);
  expect(new Set(made).size).toBe(100);
});
