import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { makePartitions, missingPartitions, partitionName } from '../../server/db/partitions.ts';
import { keepHouse } from '../../server/primary/housekeeping.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { settingsOf } from '../helpers/settings.ts';

let fresh: FreshDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
  await makePartitions(fresh.database, Date.now());
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(async () => {
  vi.useRealTimers();
  await fresh.drop();
});

/** What the minute round does. */
async function passMinute(): Promise<void> {
  const log = Object.assign(() => {}, { enabled: () => true });
  const stop = keepHouse(
    fresh.database,
    () => settingsOf({}),
    log,
    () => {},
    () => {},
    () => {},
  );
  vi.advanceTimersByTime(60_000);
  await stop();
}

test('a minute after a partition was dropped it is there again', async () => {
  await fresh.database.query({ text: `drop table ${partitionName('events', Date.now())}` });
  await passMinute();
  expect(await missingPartitions(fresh.database, Date.now())).toEqual([]);
});

test('a minute after a last lease ended its delivery is a dead letter', async () => {
  await fresh.database.query({
    text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, attempts, last_lease)
           values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), now(), 0, 'leased', 10, true)`,
  });
  await passMinute();
  expect(await fresh.database.query({ text: 'select state from deliveries' })).toEqual([{ state: 'dead' }]);
});
