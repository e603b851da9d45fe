/** `weir sql`: one statement that can only read, or write with `--write`. */
import { rm } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { weir, weirJson } from '../../helpers/command.ts';
import { look, postgresPids } from '../../helpers/processes.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { copyDataDir, spawnWeir } from '../../helpers/weir.ts';

const app = shared(startTestApp);

test('prints the rows, with bytes, times and control characters readable', async () => {
  const statement = `select 1 as one, null as none, '\\x00ff'::bytea as bytes, timestamptz '2026-11-27T10:00Z' as at, e'a\\nb' as text, '{"a":1}'::jsonb as json`;
  expect(await weir(app, 'sql', statement)).toEqual({
    code: 0,
    err: '',
    out: 'one  none  bytes   at                        text    json\n1          \\x00ff  2026-11-27T10:00:00.000Z  a\\x0ab  {"a":1}\n(1 row)\n',
  });
  expect(await weirJson(app, 'sql', 'select 1 as one where false')).toEqual({ rows: [] });
});

test('changes nothing without --write, not even by leaving its transaction', async () => {
  const insert = `create table notes (text text)`;
  for (const statement of [insert, `commit; ${insert}`, `set transaction read write; ${insert}`])
    expect(await weir(app, 'sql', statement)).toMatchObject({ code: 1, err: expect.stringMatching(/^weir: .+\n$/) });
  expect((await weir(app, 'sql', insert)).err).toBe('weir: cannot execute CREATE TABLE in a read-only transaction\n');
  expect(await weir(app, 'sql', '--write', insert)).toMatchObject({ code: 0, out: '(0 rows)\n' });
  expect((await weir(app, 'sql', 'select * from notes')).code).toBe(0);
  expect(await weir(app, 'sql', 'select')).toMatchObject({ code: 0 });
});

const stages = {
  'while the embedded server starts': async (dataDir: string) => (await postgresPids(dataDir)) !== null,
  async 'during its statement'(dataDir: string) {
    const { backends = [] } = (await postgresPids(dataDir)) ?? {};
    const seen = await Promise.all(backends.map(look));
    return seen.some((backend) => backend?.command.endsWith(' SELECT'));
  },
};

for (const [stage, isReached] of Object.entries(stages))
  test.each(['SIGINT', 'SIGTERM'] as const)(`%s ${stage} leaves no server running`, async (signal) => {
    const dataDir = await copyDataDir();
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const { child, ended } = spawnWeir({ DATA_DIR: dataDir }, { command: ['sql', 'select pg_sleep(600)'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    await until(() => isReached(dataDir));
    child.kill(signal);
    expect(await ended).not.toBe(0);
    expect(await postgresPids(dataDir)).toBeNull();
  });
