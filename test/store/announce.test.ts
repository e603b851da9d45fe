import { expect, test } from 'vitest';
import { Changes } from '../../server/store/announce.ts';
import { DatabaseUnavailable } from '../../server/store/connect/unavailable.ts';

test('a change without its own connection is not made, and the database is reported as unavailable', async () => {
  let made = false;
  const changes = new Changes('host=/nowhere dbname=weir');
  const change = changes.announced('webhook:x', async () => {
    made = true;
  });
  await expect(change).rejects.toBeInstanceOf(DatabaseUnavailable);
  expect(made).toBe(false);
});
