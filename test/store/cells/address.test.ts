/** Connection strings of cells as they are stored. */
import { randomBytes, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { addressOf } from '../../../server/store/cells/address.ts';
import { seal } from '../../../server/store/secrets/seal.ts';

const key = randomBytes(32);
const stored = (text: string) => {
  const id = randomUUID();
  const home = { conninfo: '', database: { query: () => Promise.reject(new Error('not asked')) } };
  return addressOf({ number: 1, id, sealed: seal(Buffer.from(text), key, id) }, [key], home);
};

test.each([
  ['postgres://u:p%20w@db/weir?sslmode=require', "user='u' password='p w' host='db' dbname='weir' sslmode='require'"],
  ['host=/run/pg  dbname=weir', "host='/run/pg' dbname='weir'"],
])('one of an earlier release, which stored what was typed, is rebuilt: %s', async (text, conninfo) => {
  expect(await stored(text)).toMatchObject({ kind: 'postgres', conninfo, tables: conninfo, fault: null });
});

test('one that Weir cannot read is not used, and the reason says what to do', async () => {
  expect(await stored('postgres://u:pass/word@db/weir')).toMatchObject({
    conninfo: '',
    fault: 'its connection string cannot be understood: give it again with weir cell update',
  });
});
