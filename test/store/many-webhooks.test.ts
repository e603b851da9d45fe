/** What is read of all webhooks. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { sizedByWebhooks } from '../../server/store/many-webhooks.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';

let fresh: FreshDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
});
afterAll(() => fresh.drop());

test('what is read of more than 1,000 webhooks is kept', async () => {
  const add = `insert into webhooks (id, name) select gen_random_uuid(), 'webhook ' || i from generate_series(1, $1::int) i`;
  await fresh.database.query({ text: add, values: [1_000] });
  expect(await sizedByWebhooks(fresh.database, Promise.resolve('read'))).toEqual({ value: 'read', isLarge: false });
  await fresh.database.query({ text: add, values: [1] });
  expect(await sizedByWebhooks(fresh.database, Promise.resolve('read'))).toEqual({ value: 'read', isLarge: true });
});
