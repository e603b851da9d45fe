/**
 * The least queue that Postgres can be: one unpartitioned table, one statement that leases, one that deletes, one libpq connection, no
 * server. What Weir costs above it is the cost of agents, webhooks, leases, history and HTTP.
 */
import type { Database } from '../../server/store/connect/pool.ts';
import { FILL_TIMEOUT_MS } from './backlog.ts';
import { connectNative } from './database.ts';

const LEASE = `
  update least_queue q
  set available_at = now() + interval '10 minutes', attempts = q.attempts + 1
  from (
    select id from least_queue where available_at <= now() order by id limit $1 for update skip locked
  ) c
  where q.id = c.id
  returning q.id, q.body`;
const DELETE = 'delete from least_queue where id = any ($1::bigint[])';

/** Creates the table and connects. */
export async function openLeastQueue(database: Database, conninfo: string) {
  await database.query({
    text: `create table least_queue (
      id bigint generated always as identity primary key,
      available_at timestamptz not null default now(),
      attempts int not null default 0,
      body bytea not null)`,
  });
  const client = await connectNative(conninfo, 'least-queue');
  return {
    /** Leases up to `max` rows with their bodies and deletes them. Returns their number. */
    async step(max: number): Promise<number> {
      const { rows } = await client.query<{ id: string; body: Buffer }>({ name: 'lease', text: LEASE, values: [max] });
      if (rows.length > 0) await client.query({ name: 'delete', text: DELETE, values: [rows.map(({ id }) => id)] });
      return rows.length;
    },
    close: () => client.end(),
  };
}

/** Fills the emptied table with `rows` rows, with statistics as after a while of use. */
export async function renewLeastQueue(database: Database, rows: number, bodyBytes: number): Promise<void> {
  await database.query({ text: 'truncate least_queue' });
  await database.query({
    text: `
      insert into least_queue (body)
      select convert_to('{"data":"' || rpad('', $2::int - 11, md5(i::text)) || '"}', 'UTF8') from generate_series(1, $1::int) i`,
    values: [rows, bodyBytes],
    timeoutMs: FILL_TIMEOUT_MS,
  });
  await database.query({ text: 'vacuum analyze least_queue', timeoutMs: FILL_TIMEOUT_MS });
  await database.query({ text: 'checkpoint', timeoutMs: FILL_TIMEOUT_MS });
}
