import { expect, test } from 'vitest';
import { CopyConnection } from '../../../server/store/copy/connection.ts';
import { CopyEncoder, copyEventsSql } from '../../../server/store/copy/rows.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';

const fresh = shared(freshDatabase);

const noRows = new CopyEncoder().encode([]);

test('a COPY that is begun ahead of its data and refused fails once; the next COPY commits', async () => {
  const connection = await CopyConnection.connect(fresh.conninfo, () => {});
  await connection.run('set lock_timeout = 50');
  await fresh.database.transaction(async (query) => {
    await query({ text: 'lock table events' });
    connection.begin(copyEventsSql);
    expect(await connection.copyIn(copyEventsSql, noRows)).toMatchObject({ kind: 'refused', sqlState: '55P03' });
  });
  expect(await connection.copyIn(copyEventsSql, noRows)).toEqual({ kind: 'committed' });
  connection.close();
});
