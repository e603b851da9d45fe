/** Reads what a run has stored. */
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import type { Stored, StoredDelivery, StoredEvent } from './history.ts';

const ROWS_A_QUERY = 5_000;

/** @param conninfos of home and its cells */
export async function readStored(conninfos: readonly string[]): Promise<Stored> {
  const stored: Stored = { events: [], deliveries: [] };
  for (const conninfo of conninfos) {
    const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'nemesis' });
    const events = await readAll<StoredEvent>(
      database,
      `select id, webhook_id, substring(encode(substr(body, 1, 64), 'escape') from '"mark":"([^"]+)') as mark,
         encode(sha256(body), 'hex') as hash, convert_from(headers, 'LATIN1') as headers,
         (extract(epoch from received_at) * 1000)::float8 as "receivedAtMs" from events`,
    );
    const text = `select id, webhook_id, agent_id, event_id, state, attempts, leases, coalesce(history::text, '') as history
      from deliveries`;
    stored.events = stored.events.concat(events);
    // There may be more than a call takes arguments.
    stored.deliveries = stored.deliveries.concat(await readAll<StoredDelivery>(database, text));
    await database.close();
  }
  return stored;
}

/** Rows in pages by `id`, since one result is bounded. */
async function readAll<Row extends { id: string }>(database: Database, text: string): Promise<Row[]> {
  const all: Row[] = [];
  for (let last = '00000000-0000-0000-0000-000000000000'; ; last = all.at(-1)!.id) {
    const paged = `${text} where id > $1::uuid order by id limit ${ROWS_A_QUERY}`;
    const rows = await database.query<Row>({ text: paged, values: [last], timeoutMs: 60_000 });
    all.push(...rows);
    if (rows.length < ROWS_A_QUERY) return all;
  }
}
