import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkDataDir, checkKey } from '../../../server/operate/doctor/files.ts';
import { settingsOf, someKey, temporaryDirectory } from '../../helpers/settings.ts';

const isRoot = process.getuid!() === 0;
/** As root, the account of Postgres needs access to the directory. */
const ownMode = isRoot ? 0o711 : 0o700;
const inDirectory = (directory: string) => settingsOf({ DATA_DIR: directory });

describe('the doctor checks DATA_DIR', () => {
  test('that is missing: its parent is checked, and it is not created', async () => {
    const parent = temporaryDirectory();
    chmodSync(parent, 0o755);
    const [check] = await checkDataDir(inDirectory(join(parent, 'a/b')));
    expect(check).toMatchObject({ name: 'data_dir', state: 'ok' });
    expect(check!.finding).toContain('will be created');
    expect(existsSync(join(parent, 'a'))).toBe(false);
  });

  test('that is a file', async () => {
    const path = join(temporaryDirectory(), 'file');
    writeFileSync(path, '');
    expect((await checkDataDir(inDirectory(path)))[0]).toMatchObject({ state: 'problem' });
  });

  test.runIf(isRoot)('into which the account of Postgres cannot walk', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o700);
    const [check] = await checkDataDir(inDirectory(directory));
    expect(check).toMatchObject({ state: 'problem' });
    expect(check!.fix).toContain(`chmod o+x ${directory}`);
  });

  test.skipIf(isRoot)('into which we may not write', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o500);
    expect((await checkDataDir(inDirectory(directory)))[0]!.state).toBe('problem');
  });

  test('and the disk of it', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, ownMode);
    expect((await checkDataDir(inDirectory(directory))).map((check) => check.name)).toEqual(['data_dir', 'disk']);
  });

  test.each([
    ['look into', 0o755, 'advice'],
    ['write to', 0o777, 'problem'],
  ])('that others can %s', async (_, mode, state) => {
    const directory = temporaryDirectory();
    chmodSync(directory, mode);
    const found = (await checkDataDir(inDirectory(directory))).find(({ name }) => name === 'data_dir_mode');
    expect(found).toMatchObject({ state, fix: expect.stringContaining(`chmod ${ownMode.toString(8)} ${directory}`) });
  });
});

describe('the doctor checks the key', () => {
  test('that is given', async () => {
    const { check, keys } = await checkKey(settingsOf({ SECRETS_KEY: someKey }));
    expect(check.state).toBe('ok');
    expect(keys).toEqual([someKey]);
    expect(JSON.stringify(check)).not.toContain(someKey);
  });

  test('that does not exist yet, and creates none', async () => {
    const directory = temporaryDirectory();
    const { check, keys } = await checkKey(inDirectory(directory));
    expect(check.state).toBe('ok');
    expect(keys).toBeNull();
    expect(existsSync(join(directory, 'secrets.key'))).toBe(false);
  });

  test.each([
    ['for its owner alone', someKey, 0o600, 'ok'],
    ['that its group can read', someKey, 0o640, 'problem'],
    ['that other users can read', someKey, 0o604, 'problem'],
    ['that holds no key', 'nonsense', 0o600, 'problem'],
  ])('in a file %s', async (_, text, mode, state) => {
    const directory = temporaryDirectory();
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'secrets.key'), text);
    chmodSync(join(directory, 'secrets.key'), mode);
    const { check } = await checkKey(inDirectory(directory));
    expect(check.state).toBe(state);
    expect(check.fix === null).toBe(state === 'ok');
  });
});
