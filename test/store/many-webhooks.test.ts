/** What is read of all webhooks. */

import { expect, test } from 'vitest';
import { sizedByWebhooks } from '../../server/store/many-webhooks.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { shared } from '../helpers/shared.ts';

const fresh = shared(freshDatabase);

test('what is read of more than 1,000 webhooks is kept', async () => {
  const add = `insert into webhooks (id, name) select gen_random_uuid(), 'webhook ' || i from generate_series(1, $1::int) i`;
  await fresh.database.query({ text: add, values: [1_000] });
  expect(await sizedByWebhooks(fresh.database, Promise.resolve('read'))).toEqual({ value: 'read', isLarge: false });
  await fresh.database.query({ text: add, values: [1] });
  expect(await sizedByWebhooks(fresh.database, Promise.resolve('read'))).toEqual({ value: 'read', isLarge: true });
});
