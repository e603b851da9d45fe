/** `weir sql`: one statement that can only read, or write with `--write`. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestApp } from '../../helpers/app.ts';
import { weir, weirJson } from '../../helpers/command.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp();
});
afterAll(() => app.stop());

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
