/** Commands that meet no installation, or another schema: only `start`, `migrate` and `restore` create or upgrade one. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { commands } from '../../../server/cli/commands.ts';
import { runCommands, weirOn } from '../../helpers/command.ts';
import { installNextRelease, nextMigration } from '../../helpers/next-release.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { ofEach } from '../../helpers/shared.ts';
import { spawnWeir } from '../../helpers/weir.ts';

const fresh = ofEach(freshDatabase);
let directory: string;
beforeEach(() => {
  directory = temporaryDirectory();
});

const words = [
  ['keys', 'rotate'],
  ['keys', 'new'],
  ['sql', 'select 1'],
  ['event', 'export'],
  ['user', 'add', '--email', 'ada@example.org', '--role', 'administrator'],
  ['cell', 'list'],
  ['audit', 'verify'],
  ['backup', 'weir.dump'],
];

test.each(words.map((words) => [words.join(' '), words]))(
  'weir %s without an installation writes nothing and says where it looked',
  async (_, words) => {
    const { code, out, err } = await runCommands(commands, directory, { DATA_DIR: 'data' }, words);
    expect([code, out]).toEqual([3, '']);
    expect(err).toContain(`no installation in ${join(directory, 'data')}: set DATA_DIR, run in its directory,`);
    expect(existsSync(join(directory, 'data'))).toBe(false);
  },
);

test('weir start --check says that the settings are valid, and names a variable that is almost a setting', async () => {
  const { code, out, err } = await runCommands(commands, directory, { RETENTON_DAYS: '10' }, ['start', '--check']);
  expect([code, out]).toEqual([0, 'The settings are valid.\n']);
  expect(err).toBe('weir: unknown settings, which change nothing: RETENTON_DAYS (RETENTION_DAYS?)\n');
});

test('an empty database gets no schema', async () => {
  await fresh.sql('drop schema public cascade; create schema public');
  const { code, err } = await weirOn(fresh.conninfo, 'keys', 'rotate');
  expect(code).toBe(1);
  expect(err).toMatch(/cannot be used: it has no schema of Weir; create it: .* start\n$/);
  const tables = await fresh.sql(`select from pg_tables where schemaname = 'public'`);
  expect(tables).toEqual([]);
});

test('missing migrations are named, and not applied', async () => {
  const { entry, remove } = await installNextRelease();
  onTestFinished(remove);
  const run = async (...command: string[]) => {
    const settings = { DATABASE_URL: fresh.conninfo, SECRETS_KEY: someKey, DATA_DIR: directory };
    const weir = spawnWeir(settings, { command, entry });
    return { code: await weir.ended, out: weir.lines.join('\n'), err: weir.stderr() };
  };
  const { code, err } = await run('keys', 'rotate');
  expect(code).toBe(1);
  expect(err).toContain(`it lacks migrations of this release (${nextMigration})`);
  expect(err).toMatch(/restart Weir with this release, or upgrade it first: .* migrate\n$/);
  const { checks } = JSON.parse((await run('doctor', '--json')).out);
  expect(checks.find(({ name }: { name: string }) => name === 'migrations')).toMatchObject({ state: 'advice' });
  expect(await fresh.sql(`select from schema_migrations where name = '${nextMigration}'`)).toEqual([]);
});
