import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../server/base/time/durations.ts';
import { runMaintenance } from '../../../server/operate/primary/maintenance.ts';
import { advisoryLocks } from '../../../server/store/advisory-locks.ts';
import { Cell } from '../../../server/store/cells/cell.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { createPartitions, missingPartitions, partitionName } from '../../../server/store/retention/partitions.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf } from '../../helpers/settings.ts';
import { ofEach, ofTest } from '../../helpers/shared.ts';
import { gate, until } from '../../helpers/wait.ts';

const fresh = ofEach(freshDatabase);
beforeEach(async () => {
  await createPartitions(fresh.database, Date.now());
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(async () => {
  vi.useRealTimers();
});

function run(
  database: Database,
  onMaintained = () => {},
  { others = [], onLog = () => {} }: { others?: Cell[]; onLog?: (event: string) => void } = {},
): () => Promise<void> {
  return runMaintenance({
    database,
    cells: { all: () => [Cell.home('', database), ...others] },
    log: Object.assign(onLog, { enabled: () => true, dropped: () => 0 }),
    settings: () => settingsOf({}),
    onHorizon: () => {},
    onLastLeases: () => {},
    onUnhandled: () => {},
    onMaintained,
  });
}

/** Runs the rounds of every minute and, after an hour, the hourly one. */
async function pass(ms = MINUTE_MS): Promise<void> {
  const stop = run(fresh.database);
  vi.advanceTimersByTime(ms);
  await stop();
}

test('an hourly round that takes longer leaves out the next, and the stop waits for it', async () => {
  let begun = 0;
  const { opened: released, open: release } = gate();
  let maintained = 0;
  const query: Database['query'] = async (statement) => {
    if (statement.text.includes('delete from rejections')) {
      begun++;
      await released;
    }
    return fresh.database.query(statement);
  };
  const stop = run({ ...fresh.database, query }, () => maintained++);
  vi.advanceTimersByTime(HOUR_MS);
  await until(() => begun === 1);
  vi.advanceTimersByTime(HOUR_MS);
  let stopped = false;
  const stopping = stop().then(() => {
    stopped = true;
  });
  // Time enough for a round that finds its lock taken.
  for (let looks = 0; looks < 50; looks++) await fresh.sql('select 1');
  expect({ stopped, maintained }).toEqual({ stopped: false, maintained: 0 });
  release();
  await stopping;
  expect({ begun, maintained }).toEqual({ begun: 1, maintained: 1 });
});

test('a partition of a cell that cannot be dropped is logged once, not each hour', async () => {
  const other = await ofTest(freshDatabase());
  const old = partitionName('events', Date.now() - 60 * DAY_MS);
  await createPartitions(other.database, Date.now() - 60 * DAY_MS);
  await other.sql(`alter table events detach partition ${old}`);
  const logged: string[] = [];
  let maintained = 0;
  const cell = Object.assign(Cell.home('', other.database), { number: 1 });
  await other.database.transaction(async (query) => {
    await query({ text: `lock table ${old} in access share mode` });
    const onLog = (event: string) => void logged.push(event);
    const stop = run(fresh.database, () => maintained++, { others: [cell], onLog });
    for (const hours of [1, 2]) {
      vi.advanceTimersByTime(HOUR_MS);
      await until(() => maintained === hours);
    }
    await stop();
  });
  expect(logged.filter((event) => event === 'partition_busy')).toHaveLength(1);
});

test('a dropped partition is created again within a minute', async () => {
  await fresh.sql(`drop table ${partitionName('events', Date.now())}`);
  await pass();
  expect(await missingPartitions(fresh.database, Date.now())).toEqual([]);
});

test('an expired last lease becomes a dead letter within a minute', async () => {
  await fresh.sql(`insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, attempts, last_lease)
           values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), now(), 0, 'leased', 10, true)`);
  await pass();
  expect(await fresh.sql('select state from deliveries')).toEqual([{ state: 'dead' }]);
});

test('a temporary agent that was not seen for an hour is revoked within a minute, and removed later', async () => {
  const agents = () => fresh.sql('select revoked_at is not null as revoked from agents');
  await fresh.sql(`insert into agents (id, name, lookup_id, secret_hash, temporary, created_at)
           values (gen_random_uuid(), 'listen', 'abcdefghijkl', decode(repeat('00', 32), 'hex'), true, now() - interval '2 hours')`);
  await pass();
  expect(await agents()).toEqual([{ revoked: true }]);
  await fresh.sql(`update agents set revoked_at = now() - interval '5 minutes'`);
  await pass();
  expect(await agents()).toEqual([]);
});

test('the hourly round, which records failed sign-ins with their count, is left to a machine that is running it', async () => {
  const text = `insert into sign_in_tallies (key, target, failures, started_at)
    values ('account:x', '{"kind":"user","id":null,"name":"x@example.org"}', 3, now() - interval '1 hour')`;
  await fresh.sql(text);
  const recorded = () => fresh.sql(`select action, entry -> 'after' -> 'failures' as failures from audit_log`);
  const elsewhere = openDatabase(fresh.conninfo, { connectionsMax: 1, applicationName: 'weir-test' });
  await elsewhere.transaction(async (query) => {
    await query({ text: `select pg_advisory_xact_lock(${advisoryLocks.maintenance})` });
    await pass(HOUR_MS);
    expect(await recorded()).toEqual([]);
  });
  await elsewhere.close();
  await pass(HOUR_MS);
  expect(await recorded()).toEqual([{ action: 'session.sign_in_failed', failures: 3 }]);
});
