import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../server/store/connect/pool.ts';
import { migrate } from '../../server/store/migrate.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';

let fresh: FreshDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
  // Like a server with Postgres defaults; the embedded one has JIT off.
  await fresh.database.query({ text: `alter database ${fresh.name} set jit = on` });
});
afterEach(() => fresh.drop());

async function jit(conninfo: string): Promise<string> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'jit-test' });
  const [row] = await database.query<{ jit: string }>({ text: 'show jit' }).finally(() => database.close());
  return row!.jit;
}

/** A connection without the options of Weir: dropped by a pooler, or replaced by the operator's own. */
const withoutOptions = () => `${fresh.conninfo} options='-c timezone=UTC'`;

test('connections of Weir turn JIT off', async () => {
  expect(await jit(fresh.conninfo)).toBe('off');
});

test('where their options do not arrive, the migration has turned JIT off for the role', async () => {
  expect(await jit(withoutOptions())).toBe('on');
  await migrate(fresh.database);
  expect(await jit(withoutOptions())).toBe('off');
});

test('earlier settings of the role are kept', async () => {
  await fresh.database.query({ text: `alter role current_user in database ${fresh.name} set jit = on` });
  await migrate(fresh.database);
  expect(await jit(withoutOptions())).toBe('on');
});

test('a role that cannot alter itself can still migrate', async () => {
  const login = `limited_${fresh.name}`;
  await fresh.database.query({
    text: `create role ${login}; grant all on database ${fresh.name} to ${login}; grant all on all tables in schema public to ${login};
           grant create on schema public to ${login}`,
  });
  try {
    // The session belongs to a superuser, the statements to a role that cannot change the superuser's defaults.
    const conninfo = `${fresh.conninfo} options='-c timezone=UTC -c role=${login}'`;
    const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'jit-test' });
    expect(await migrate(database).finally(() => database.close())).toEqual([]);
    expect(await jit(withoutOptions())).toBe('on');
  } finally {
    await fresh.database.query({ text: `drop owned by ${login}; drop role ${login}` });
  }
});
