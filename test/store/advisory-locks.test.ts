import { expect, onTestFinished, test } from 'vitest';
import { advisoryLocks } from '../../server/store/advisory-locks.ts';
import { insertSubscriptions } from '../../server/store/queries/agents/subscriptions.ts';
import { storeRejections } from '../../server/store/queries/rejections/ring.ts';
import { lockAdministrators } from '../../server/store/queries/users/users.ts';
import { freshDatabase } from '../helpers/postgres.ts';

test('all locks differ', () => {
  const numbers = Object.values(advisoryLocks);
  expect(new Set(numbers).size).toBe(numbers.length);
});

test('a change of users does not block subscriptions or rejections', async () => {
  const { database, drop } = await freshDatabase();
  onTestFinished(drop);
  await database.transaction(async (query) => {
    await lockAdministrators(query);
    const set = database.transaction((other) => insertSubscriptions(other, { webhookIds: [], agentIds: [] }));
    await expect(set).resolves.toEqual([]);
    const limits = { rejectionsMax: 1, webhookRejectionsMax: 1, bytesMax: 1 };
    await expect(storeRejections(database, [], limits)).resolves.toEqual([]);
  });
});
