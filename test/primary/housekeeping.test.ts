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

test('a minute after a partition was dropped it is there again', async () => {
  const log = Object.assign(() => {}, { enabled: () => true });
  const stop = keepHouse(
    fresh.database,
    () => settingsOf({}),
    log,
    () => {},
    () => {},
    () => {},
  );
  await fresh.database.query({ text: `drop table ${partitionName('events', Date.now())}` });
  vi.advanceTimersByTime(60_000);
  await stop();
  expect(await missingPartitions(fresh.database, Date.now())).toEqual([]);
});
