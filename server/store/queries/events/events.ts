/** Stored events: one with its body, filtered lists, and the newest for live views. */
import type { z } from 'zod';
import { eventSchema } from '../../../model/events.ts';
import { newest, type Place, summedBy } from '../../connect/place.ts';
import type { Database, Queries, Statement } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf, Placeholders, selectList } from '../../sql.ts';
import { type EventFilter, type EventSpan, matching, spanConditions, where } from './conditions.ts';

/** An event without its body; headers in their stored form. */
export type EventRecord = NewEvent & { headers: Buffer };

const columns = selectList(eventSchema, 'e', { source_ip: 'host(e.source_ip)' });

/** Reads an event with its body; undefined when it does not exist or has no delivery to the agent. */
export async function findEvent(
  database: Queries,
  agentId: string | null,
  id: string,
): Promise<(EventRecord & { body: Buffer }) | undefined> {
  const [row] = await database.query<EventRecord & { body: Buffer }>({
    name: 'find-event',
    text: `
      select ${columns}, e.body from events e
      where e.received_at = $1 and e.id = $2
        and ($3::uuid is null or exists (
          select from deliveries d where d.received_at = e.received_at and d.event_id = e.id and d.webhook_id = e.webhook_id and d.agent_id = $3))`,
    values: [uuidv7Time(id), id, agentId],
    place: { id },
  });
  return row;
}

/**
 * Lists the newest events of a range that pass the filter. The caller bounds the range (see sliceEnd). Planned on each call, with its
 * values, so that the plan contains only the partitions of the range. For one webhook, past days are read by their index, and today by the
 * primary key. A search for a type that no event has takes 1.3 s in a million events; indexes for it would cost each stored event 2 us
 * (bench/NOTES.md).
 */
export function listEvents(
  database: Database,
  filter: EventFilter,
  span: EventSpan,
  limit: number,
  plan?: Statement['plan'],
): Promise<EventRecord[]> {
  const given = new Placeholders();
  return database.query<EventRecord>({
    text: `
      select ${columns} ${matching(given, filter, span)}
      order by e.received_at desc, e.id desc
      limit ${given.of(limit, 'bigint')}`,
    values: given.values,
    ...(plan && { plan }),
    place: { each: newest(limit) },
  });
}

const byWebhook = summedBy<{ webhookId: string; count: number }>(({ webhookId }) => webhookId);

/** Counts matches of a range by webhook, up to `limit` in each cell. */
export function countByWebhook(
  database: Database,
  filter: EventFilter,
  span: EventSpan,
  limit: number,
  plan?: Statement['plan'],
): Promise<{ webhookId: string; count: number }[]> {
  const given = new Placeholders();
  return database.query({
    text: `select webhook_id as "webhookId", count(*)::int as count
           from (select e.webhook_id ${matching(given, filter, span)} limit ${given.of(limit, 'bigint')}) matches
           group by webhook_id`,
    values: given.values,
    ...(plan && { plan }),
    place: { each: byWebhook },
  });
}

/**
 * Where to stop reading a range, newest first, so that at most `rows` events with about `bytes` of bodies (null: no limit) are read.
 * Returns an event id, or undefined when the whole range fits. With an agent, counts the agent's deliveries; with a webhook, its events
 * alone.
 *
 * Without `bytes` only the primary key is read: 20,000 events in 5 ms. With `bytes`: 5,000 events in 9 ms.
 */
export async function sliceEnd(
  database: Database,
  { agentId, webhookId }: Pick<EventFilter, 'agentId' | 'webhookId'>,
  span: EventSpan,
  { rows, bytes }: { rows: number; bytes: number | null },
  plan?: Statement['plan'],
): Promise<string | undefined> {
  const given = new Placeholders();
  const [table, id] = agentId === null ? ['events', 'id'] : ['deliveries', 'event_id'];
  const conditions = [
    ...spanConditions(given, span, 'received_at', id!),
    agentId && `agent_id = ${given.of(agentId, 'uuid')}`,
    webhookId && `webhook_id = ${given.of(webhookId, 'uuid')}`,
  ];
  const order = `order by received_at desc, ${id} desc`;
  const text =
    bytes === null
      ? `select ${id} as id from ${table} ${where(conditions)} ${order} offset ${given.of(rows - 1, 'bigint')} limit 1`
      : `select id from (
           select *, count(*) over () = ${given.of(rows, 'bigint')} or max(bytes_before) over () >= ${given.of(bytes, 'bigint')} as has_more
           from (
             select received_at, ${id} as id, sum(bytes) over newest - bytes as bytes_before
             from ${table} ${where(conditions)}
             window newest as (${order} rows unbounded preceding)
             limit ${given.of(rows, 'bigint')}
           ) looked_at
         ) cut
         where has_more and bytes_before < ${given.of(bytes, 'bigint')}
         order by received_at, id
         limit 1`;
  // The nearest end of several cells bounds what is read of each.
  const place = { each: newest<{ id: string }>(1) };
  const [row] = await database.query<{ id: string }>({ text, values: given.values, ...(plan && { plan }), place });
  return row?.id;
}

/** Newest first, at most `limit` of each watched webhook. */
function newestOfEach<Row extends { id: string; watched: string | null }>(rows: Row[], limit: number): Row[] {
  const taken = new Map<string | null, number>();
  return rows
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .filter(({ watched }) => {
      const count = (taken.get(watched) ?? 0) + 1;
      taken.set(watched, count);
      return count <= limit;
    });
}

const newEventSchema = eventSchema.omit({ headers: true });
/** An event as a live view shows it; body and headers are not read. */
export type NewEvent = z.output<typeof newEventSchema>;

export const newEventColumns = selectList(newEventSchema, 'e', {
  source_ip: 'host(e.source_ip)',
  content_type: 'left(e.content_type, 200)',
});

/** Up to this number of watched webhooks, the events of each are looked up. For more, the keys of all recent events are read once. */
const ONE_BY_ONE_MAX = 20;

/** Reads the newest events since `fromMs`, newest first, at most `limit` for each watched webhook (null: all webhooks). */
export async function readNewest(
  database: Database,
  watched: readonly (string | null)[],
  fromMs: number,
  limit: number,
): Promise<{ watched: string | null; event: NewEvent }[]> {
  const together = watched.length > ONE_BY_ONE_MAX ? watched.filter((id) => id !== null) : [];
  const oneByOne = together.length > 0 ? watched.filter((id) => id === null) : watched;
  const values = (ids: readonly (string | null)[]) => [arrayOf(ids), new Date(fromMs).toISOString(), limit];
  const place: Place<NewestRow> = { each: (byCell) => newestOfEach(byCell.flat(), limit), lenient: true };
  const [rows, more] = await Promise.all([
    oneByOne.length === 0
      ? []
      : database.query<NewestRow>({
          name: 'newest-events',
          text: newestOneByOne,
          values: values(oneByOne),
          plan: 'once',
          place,
        }),
    // Planned with the time: a plan for any time would read whole partitions.
    together.length === 0 ? [] : database.query<NewestRow>({ text: newestTogether, values: values(together), place }),
  ]);
  return [...rows, ...more].map(({ watched, ...event }) => ({ watched, event }));
}

type NewestRow = NewEvent & { watched: string | null };

const newestOneByOne = `
  select w.id as watched, e.*
  from unnest($1::uuid[]) as w (id)
  cross join lateral (
    select ${newEventColumns} from events e
    where e.received_at >= $2 and (w.id is null or e.webhook_id = w.id)
    order by e.received_at desc, e.id desc
    limit $3
  ) e
  order by e.received_at desc, e.id desc`;

const newestTogether = `
  with recent as materialized (
    select received_at, id, webhook_id from events where received_at >= $2
  ), placed as (
    select *, row_number() over (partition by webhook_id order by received_at desc, id desc) as place
    from recent where webhook_id = any ($1::uuid[])
  )
  select e.webhook_id as watched, ${newEventColumns}
  from placed p join events e on e.received_at = p.received_at and e.id = p.id and e.webhook_id = p.webhook_id and e.received_at >= $2
  where p.place <= $3
  order by e.received_at desc, e.id desc`;
