/** The types of a webhook's events, by how often they occur. */
import type { z } from 'zod';
import type { eventTypeSchema } from '../../../model/events.ts';
import { lesser, summedBy, sumOf } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';

/** Newest events that are counted. */
export const TYPED_EVENTS_MAX = 20_000;
/** Types that are returned. */
const TYPES_MAX = 100;
const TIMEOUT_MS = 5_000;

interface EventTypes {
  items: z.output<typeof eventTypeSchema>[];
  /** Events that were counted. */
  counted: number;
  /** When the oldest of them was received, ISO; null: there is no event. */
  since: string | null;
}

type TypeRow = EventTypes['items'][number] & { counted: number; since: string };

/** Events that a webhook received before it moved are in another cell. */
const byType = summedBy<TypeRow>(
  ({ event_type }) => JSON.stringify(event_type),
  (one, other) => ({
    ...sumOf(one, other),
    newest_id: one.newest_id > other.newest_id ? one.newest_id : other.newest_id,
    since: lesser(one.since, other.since)!,
  }),
);

/**
 * Counts the newest events of a webhook by type, the most frequent first, at most TYPED_EVENTS_MAX events and TYPES_MAX types.
 * @param from ISO; only events received at this time or later
 */
export async function countEventTypes(
  { query }: Pick<Database, 'query'>,
  webhookId: string,
  from: string,
): Promise<EventTypes> {
  const rows = await query<TypeRow>({
    text: `
      with newest as (
        select id, event_type, received_at from events
        where webhook_id = $1 and received_at >= $2 order by received_at desc, id desc limit $3
      )
      select event_type, count(*)::int as events, (array_agg(id::text order by received_at desc, id desc))[1] as newest_id,
        (sum(count(*)) over ())::int as counted, ${isoText('min(min(received_at)) over ()')} as since
      from newest group by event_type
      order by events desc, event_type limit $4`,
    values: [webhookId, from, TYPED_EVENTS_MAX, TYPES_MAX],
    timeoutMs: TIMEOUT_MS,
    place: { each: byType },
  });
  const items = rows.map(({ event_type, events, newest_id }) => ({ event_type, events, newest_id }));
  const counted = Math.max(0, ...rows.map((row) => row.counted));
  return { items, counted, since: rows.reduce<string | null>((since, row) => lesser(since, row.since), null) };
}
