/** `weir keys new`: the generated key of an installation without SECRETS_KEY is replaced, and `keys rotate` retires the old one. */
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { lockDataDir } from '../../../server/base/files/data-dir.ts';
import { readSettings } from '../../../server/base/settings/read.ts';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { makeEmbeddedInstallation } from '../../helpers/command.ts';
import { someKey } from '../../helpers/settings.ts';
import { made, newWebhook, webhooksOf } from '../../helpers/webhooks.ts';

let installation: Awaited<ReturnType<typeof makeEmbeddedInstallation>>;
beforeAll(async () => {
  installation = await makeEmbeddedInstallation();
});
afterAll(() => installation.stop());

const storedSecrets = async () => {
  const { out } = await installation.weir(['doctor', '--json']);
  const { checks } = JSON.parse(out) as { checks: { name: string; state: string; fix: string | null }[] };
  const { state, fix } = checks.find(({ name }) => name === 'stored_secrets')!;
  return [state, fix];
};

test('the generated key is replaced while Weir is stopped, and the previous one is not needed after a rotation', async () => {
  const { conninfo, dataDir } = installation;
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-test' });
  onTestFinished(() => database.close());
  const keys = loadSecretsKeys(readSettings({ DATA_DIR: dataDir }, dataDir));
  made(await webhooksOf({ database }, keys).add(newWebhook({ secret: 'hush' })));
  const { code, out } = await installation.weir(['keys', 'new', '--json']);
  expect(code).toBe(0);
  const files = JSON.parse(out) as { key_file: string; previous_key_file: string };
  expect(files.previous_key_file).toBe(`${files.key_file}.previous`);
  expect(await storedSecrets()).toEqual(['advice', expect.stringContaining('npx --no weir keys rotate')]);

  const again = await installation.weir(['keys', 'new']);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining('holds a previous key already')]);

  const rotated = await installation.weir(['keys', 'rotate']);
  expect([rotated.code, rotated.err]).toEqual([0, '']);
  expect(rotated.out).toMatch(/^webhook secrets +1 +1 +0 +0$/m);
  expect(rotated.out).toContain(`remove ${files.previous_key_file} and restart Weir`);
  await rm(files.previous_key_file);
  expect(await storedSecrets()).toEqual(['ok', null]);

  // A running Weir would continue with the previous key.
  const lock = await lockDataDir(dirname(files.key_file));
  const refused = await installation.weir(['keys', 'new']);
  await lock.release();
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining(`process ${process.pid} (user`)]);
});

test('a rotation fails when no key decrypts the connection string of a cell', async () => {
  const write = (statement: string) => installation.weir(['sql', '--write', statement]);
  const lost = `insert into cells (number, id, name, sealed, state) values (7, gen_random_uuid(), 'lost', '\\x00', 'active')`;
  expect((await write(lost)).code).toBe(0);
  const { code, err } = await installation.weir(['keys', 'rotate']);
  expect([code, err]).toEqual([1, expect.stringContaining('Connection strings of cells that no configured key')]);
  expect((await write('delete from cells')).code).toBe(0);
});

test('with SECRETS_KEY set, it explains how to replace the key', async () => {
  const { code, err } = await installation.weir(['keys', 'new'], '', { SECRETS_KEY: someKey });
  expect([code, err]).toEqual([1, expect.stringMatching(/SECRETS_KEY_PREVIOUS .*openssl rand .*weir keys rotate/)]);
});
