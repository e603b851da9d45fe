/** Outages of the database. */
import { HOURS_KEPT_DAYS } from '../../../model/history.ts';
import type { Outage } from '../../../model/outages.ts';
import type { Database } from '../../connect/pool.ts';
import { arrayOf, isoColumn } from '../../sql.ts';

/** Adds outages; those that are stored already are skipped. */
export async function addOutages({ query }: Pick<Database, 'query'>, outages: readonly Outage[]): Promise<void> {
  await query({
    text: `
      insert into outages (id, machine, began_at, ended_at, refused, spooled)
      select * from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[])
      on conflict (id) do nothing`,
    values: (['id', 'machine', 'began_at', 'ended_at', 'refused', 'spooled'] as const).map((name) =>
      arrayOf(outages.map((outage) => outage[name])),
    ),
  });
}

/** Reads the outages that lasted into a time span, newest first. @param fromMs Unix milliseconds, like `toMs`. */
export function readOutages(
  { query }: Pick<Database, 'query'>,
  fromMs: number,
  toMs: number,
  limit: number,
): Promise<Outage[]> {
  return query<Outage>({
    name: 'read-outages',
    text: `
      select o.id, o.machine, ${isoColumn('o.began_at')}, ${isoColumn('o.ended_at')}, o.refused::float8 as refused,
        o.spooled::float8 as spooled
      from outages o
      where o.ended_at >= $1 and o.began_at < $2
      order by o.began_at desc, o.id
      limit $3`,
    values: [new Date(fromMs).toISOString(), new Date(toMs).toISOString(), limit],
  });
}

/** Deletes outages that are older than the hours of history. */
export async function deleteOldOutages({ query }: Pick<Database, 'query'>): Promise<void> {
  await query({ text: `delete from outages where ended_at < now() - interval '${HOURS_KEPT_DAYS} days'` });
}
