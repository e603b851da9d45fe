/** Bytes of a column as text, as Postgres returns them. */
import { expect, test } from 'vitest';
import { asText, type ByteText, bytesOf, utf8Of } from '../../server/store/sql.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { shared } from '../helpers/shared.ts';

const fresh = shared(freshDatabase);

const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

test.each([
  ['nothing', Buffer.alloc(0), ''],
  ['ASCII with every escape of JSON and SQL', Buffer.from('{"a":"\\x41 \\\\ \' \n\t"}'), '{"a":"\\x41 \\\\ \' \n\t"}'],
  ['UTF-8', Buffer.from('é → 🚀'), 'é → 🚀'],
  ['Latin-1, which is not UTF-8', Buffer.from('é', 'latin1'), null],
  ['all bytes but NUL', every.subarray(1), null],
  ['all bytes', every, null],
  ['text with NUL', Buffer.from('a\0b'), null],
  ['what looks like another form', Buffer.from('bAAAA'), 'bAAAA'],
  ['more than a line of base64', Buffer.alloc(1_000, '\0é'), null],
])('returns %s unchanged', async (_, bytes, text) => {
  const [row] = await fresh.sql<{ value: ByteText }>(
    `select ${asText('given')} as value from (select $1::bytea as given) t`,
    bytes,
  );
  expect(bytesOf(row!.value)).toEqual(bytes);
  expect(utf8Of(row!.value)).toBe(text);
});

test('returns no bytes as null', async () => {
  const [row] = await fresh.sql<{ value: ByteText | null }>(
    `select ${asText('given')} as value from (select null::bytea as given) t`,
  );
  expect(row!.value).toBeNull();
});
