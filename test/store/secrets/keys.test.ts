/** The generated key in DATA_DIR and the previous one. */
import { existsSync, linkSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { OperatorError } from '../../../server/model/fault.ts';
import { loadSecretsKeys, replaceStoredKey } from '../../../server/store/secrets/keys.ts';
import { settingsOf, someKey, temporaryDirectory } from '../../helpers/settings.ts';

const otherKey = Buffer.alloc(32, 9).toString('base64');
const modeOf = (path: string) => statSync(path).mode & 0o777;
const kept = (directory: string) => settingsOf({ DATA_DIR: directory });

test('a key is created once, readable only by its owner, in a DATA_DIR of its owner', () => {
  const directory = join(temporaryDirectory(), 'data');
  const [key] = loadSecretsKeys(kept(directory));
  expect(Buffer.from(key!, 'base64')).toHaveLength(32);
  expect(loadSecretsKeys(kept(directory))).toEqual([key]);
  // As root, the account of the embedded Postgres needs access to the directory.
  expect([modeOf(directory), modeOf(join(directory, 'secrets.key'))]).toEqual([
    process.getuid!() === 0 ? 0o711 : 0o700,
    0o600,
  ]);
});

test('SECRETS_KEY_PREVIOUS equal to SECRETS_KEY is ignored', () => {
  expect(loadSecretsKeys(settingsOf({ SECRETS_KEY: someKey, SECRETS_KEY_PREVIOUS: someKey }))).toEqual([someKey]);
  expect(loadSecretsKeys(settingsOf({ SECRETS_KEY: someKey, SECRETS_KEY_PREVIOUS: otherKey }))).toEqual([
    someKey,
    otherKey,
  ]);
});

describe('a replaced generated key', () => {
  test('is kept as the previous one, and no other file is left', () => {
    const directory = temporaryDirectory();
    const [before] = loadSecretsKeys(kept(directory));
    replaceStoredKey(directory);
    const [current, previous, ...rest] = loadSecretsKeys(kept(directory));
    expect([previous, rest]).toEqual([before, []]);
    expect(current).not.toBe(before);
    expect(readdirSync(directory).sort()).toEqual(['secrets.key', 'secrets.key.previous']);
    expect(readdirSync(directory).map((name) => modeOf(join(directory, name)))).toEqual([0o600, 0o600]);
    // A configured key replaces both files.
    expect(loadSecretsKeys({ ...kept(directory), SECRETS_KEY: someKey })).toEqual([someKey]);
  });

  test('is replaced again only when the previous one is deleted, because data may need it', () => {
    const directory = temporaryDirectory();
    loadSecretsKeys(kept(directory));
    replaceStoredKey(directory);
    const keys = loadSecretsKeys(kept(directory));
    expect(() => replaceStoredKey(directory)).toThrow(OperatorError);
    expect(() => replaceStoredKey(directory)).toThrow(/secrets\.key\.previous .*weir keys rotate, then delete/);
    expect(loadSecretsKeys(kept(directory))).toEqual(keys);
  });

  test('is replaced by the next attempt when the first was killed between its two steps', () => {
    const directory = temporaryDirectory();
    const [before] = loadSecretsKeys(kept(directory));
    linkSync(join(directory, 'secrets.key'), join(directory, 'secrets.key.previous'));
    expect(loadSecretsKeys(kept(directory))).toEqual([before]);
    replaceStoredKey(directory);
    const [current, previous] = loadSecretsKeys(kept(directory));
    expect([previous, current === before]).toEqual([before, false]);
  });

  test('is not created when no key exists', () => {
    const directory = temporaryDirectory();
    expect(() => replaceStoredKey(directory)).toThrow(/there is no key/);
    expect(existsSync(join(directory, 'secrets.key'))).toBe(false);
  });

  test('is refused when its previous file contains no key', () => {
    const directory = temporaryDirectory();
    loadSecretsKeys(kept(directory));
    writeFileSync(join(directory, 'secrets.key.previous'), 'nonsense');
    expect(() => loadSecretsKeys(kept(directory))).toThrow(/secrets\.key\.previous holds no key/);
    expect(readFileSync(join(directory, 'secrets.key.previous'), 'utf8')).toBe('nonsense');
  });
});
