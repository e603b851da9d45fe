/** Ids of deliveries, and lists of deliveries in one millisecond. */
import { expect, test } from 'vitest';
import { uuidv7Milliseconds } from '../../server/store/ids.ts';
import { listDeliveries } from '../../server/store/queries/deliveries/lists.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { shared } from '../helpers/shared.ts';

const fresh = shared(freshDatabase);

const eventId = (ms: number) =>
  `${ms
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})/, '$1-')}-7abc-9def-0123456789ab`;

test('ids of the deliveries of one event are distinct UUIDv7s of its millisecond, with its 12 bits after the version', async () => {
  const ms = Date.now();
  const rows = await fresh.sql<{ id: string }>(
    'select delivery_id($1) as id from generate_series(1, 20000)',
    eventId(ms),
  );
  const ids = rows.map(({ id }) => id);
  expect(new Set(ids).size).toBe(20_000);
  expect(new Set(ids.map(uuidv7Milliseconds))).toEqual(new Set([ms]));
  expect(ids.filter((id) => !/^[0-9a-f]{8}-[0-9a-f]{4}-7abc-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id))).toEqual([]);
});

test('a list pages through the deliveries of one millisecond once each, by falling id', async () => {
  const ms = Date.now();
  const agentId = 'aaaaaaaa-0000-4000-8000-000000000001';
  await fresh.sql(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
           select delivery_id($1), $2::uuid, $2::uuid, $1, to_timestamp($3::bigint / 1000.0), 1 from generate_series(1, 25)`,
    eventId(ms),
    agentId,
    ms,
  );
  const seen: string[] = [];
  for (let before: string | null = null; ; before = seen.at(-1)!) {
    const { rows } = await listDeliveries(fresh.database, { agentId }, before, 10);
    if (rows.length === 0) break;
    seen.push(...rows.map(({ id }) => id));
  }
  expect(seen).toHaveLength(25);
  expect(seen).toEqual([...new Set(seen)].sort().reverse());
});
