/** The pending and leased deliveries of a day whose partitions are dropped. They are in deliveries_live, not in the partition. */
import type { Database } from '../connect/pool.ts';
import { inParts } from './in-parts.ts';
import { boundsOfDay } from './partitions.ts';

/** Deliveries changed in one statement. For each delivery with a key, pass_turn() reads all that the statement changed of that key. */
const AT_A_TIME = 1_000;
/** Reason stored for a delivery whose event is removed before an agent has settled it. */
const REMOVED = 'retention removed its event';

/** SQL: the keys of some deliveries of a day ($1, $2) that are pending or leased. */
const unsettled = `
  select received_at, id, webhook_id from deliveries_live
  where received_at >= $1::timestamptz and received_at < $2::timestamptz
  order by received_at, id limit ${AT_A_TIME}`;
/** SQL: the delivery `d` is one of the rows `u` of `unsettled`. */
const isUnsettled = `d.received_at = u.received_at and d.id = u.id and d.webhook_id = u.webhook_id and d.state in ('pending', 'leased')`;

/** Whether a day, such as `20260131`, has deliveries that are pending or leased. */
export async function hasUnsettled({ query }: Database, day: string): Promise<boolean> {
  const [row] = await query<{ has: boolean }>({
    text: `select exists (${unsettled}) as has`,
    values: boundsOfDay(day),
  });
  return row!.has;
}

interface Changed {
  rows: number;
  /** False: it was stopped before the end. */
  whole: boolean;
}

/**
 * Ends the unsettled deliveries of a day as dead, which moves them to the partition that is archived and dropped.
 * @param stopping see inParts
 */
export function endUnsettled(database: Database, day: string, stopping: () => boolean): Promise<Changed> {
  return changeUnsettled(
    database,
    `update deliveries d set state = 'dead', leases = d.leases + 1, finished_at = now(), reason = '${REMOVED}' from u where ${isUnsettled}`,
    day,
    stopping,
  );
}

/** Deletes the unsettled deliveries of a day. */
export function deleteUnsettled(database: Database, day: string): Promise<Changed> {
  return changeUnsettled(database, `delete from deliveries d using u where ${isUnsettled}`, day);
}

async function changeUnsettled(
  { query }: Database,
  change: string,
  day: string,
  stopping?: () => boolean,
): Promise<Changed> {
  let rows = 0;
  const whole = await inParts(async () => {
    const text = `with u as materialized (${unsettled}) ${change} returning 1`;
    const changed = await query({ text, values: boundsOfDay(day) });
    rows += changed.length;
    return changed.length > 0;
  }, stopping);
  return { rows, whole };
}
