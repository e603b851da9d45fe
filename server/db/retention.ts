/** Housekeeping: what is older than RETENTION_DAYS goes, a whole partition at a time; keys that expired go in small portions. */
import { DAY_MS, partitionedTables } from './partitions.ts';
import type { Database } from './pool.ts';

/** Expired keys deleted in one statement: short locks, little to vacuum at a time. */
const KEYS_AT_A_TIME = 10_000;

/**
 * Drops the partitions of days that ended more than `retentionDays` ago; returns their names. DETACH CONCURRENTLY waits for old
 * transactions without keeping anybody else waiting; one that was interrupted is finished the next time.
 */
export async function dropOldPartitions(database: Database, retentionDays: number, nowMs: number): Promise<string[]> {
  const keptFrom = new Date(nowMs - retentionDays * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '');
  const dropped: string[] = [];
  // Deliveries first: one that outlived its event would be leased and never handed out.
  for (const table of [...partitionedTables].reverse()) {
    const old = await database.query<{ name: string; attached: boolean; pending: boolean }>({
      text: `select c.relname as name, i.inhrelid is not null as attached, coalesce(i.inhdetachpending, false) as pending
             from pg_class c left join pg_inherits i on i.inhrelid = c.oid
             where c.relkind = 'r' and c.relname ~ $1 and right(c.relname, 8) < $2 and c.relnamespace = (select relnamespace from pg_class where oid = $3::regclass)
             order by pending desc, 1`,
      values: [`^${table}_[0-9]{8}$`, keptFrom, table],
    });
    for (const { name, attached, pending } of old) {
      if (attached)
        await database.query({
          text: `alter table ${table} detach partition ${name} ${pending ? 'finalize' : 'concurrently'}`,
        });
      await database.query({ text: `drop table ${name}` });
      dropped.push(name);
    }
  }
  return dropped;
}

/** Deletes the dedupe keys that expired; returns how many. */
export async function deleteExpiredKeys(database: Database): Promise<number> {
  let deleted = 0;
  for (;;) {
    const rows = await database.query({
      name: 'delete-expired-keys',
      text: `delete from dedupe_keys
             where (webhook_id, key) in (
               select webhook_id, key from dedupe_keys where expires_at < now() order by expires_at limit $1 for update skip locked)
             returning 1`,
      values: [KEYS_AT_A_TIME],
    });
    deleted += rows.length;
    if (rows.length < KEYS_AT_A_TIME) return deleted;
  }
}
