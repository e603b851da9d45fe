/** What lists of events show besides the events: the states of their deliveries, their types, and events by the beginning of an id. */
import type { z } from 'zod';
import { eventDeliveriesSchema, type eventTypeSchema } from '../../../model/events.ts';
import { concatenated, lesser, type Merge, newest, summedBy, sumOf } from '../../connect/place.ts';
import type { Database, Queries } from '../../connect/pool.ts';
import { isTimedId, uuidv7Time } from '../../ids.ts';
import { arrayOf, isoText } from '../../sql.ts';
import { type NewEvent, newEventColumns } from './events.ts';

type EventDeliveries = z.output<typeof eventDeliveriesSchema>;

/**
 * Counts the deliveries of these events by state; events without deliveries are omitted. Planned on each call, for the partitions of the
 * events. Deliveries have no index on event_id, so they are found by received_at: 1.1 ms for the 1,000 deliveries of 50 events, among
 * 400,000.
 */
export function countDeliveriesOf(database: Database, eventIds: readonly string[]): Promise<EventDeliveries[]> {
  const count = (state: string) => `(count(*) filter (where state = '${state}'))::int as ${state}`;
  const counts = Object.keys(eventDeliveriesSchema.omit({ event_id: true }).shape).map(count);
  return database.query<EventDeliveries>({
    text: `
      select event_id, ${counts.join(', ')}
      from deliveries
      where received_at = any ($1::timestamptz[]) and event_id = any ($2::uuid[])
      group by event_id`,
    values: timesAndIds(eventIds),
    place: { ids: eventIds },
  });
}

/** Values for `received_at = any ($1::timestamptz[])`, which selects the partitions of the events, and `id = any ($2::uuid[])`. */
function timesAndIds(eventIds: readonly string[]): string[] {
  return [arrayOf(new Set(eventIds.map(uuidv7Time))), arrayOf(eventIds)];
}

/** Fewest digits of an id by which events are found: they contain the time to 66 seconds. */
export const ID_DIGITS_MIN = 8;

/**
 * Events whose id begins with these hexadecimal digits, ID_DIGITS_MIN or more, newest first. The digits bound the time of the events,
 * so that the primary key finds them.
 */
export async function eventsByIdStart(database: Database, digits: string, limit: number): Promise<NewEvent[]> {
  const first = uuidOf(digits.padEnd(32, '0'));
  const last = uuidOf(digits.padEnd(32, 'f'));
  if (!isTimedId(last)) return [];
  return database.query<NewEvent>({
    text: `
      select ${newEventColumns} from events e
      where e.received_at between $1::timestamptz and $2::timestamptz and e.id between $3::uuid and $4::uuid
      order by e.received_at desc, e.id desc
      limit $5`,
    values: [uuidv7Time(first), uuidv7Time(last), first, last, limit],
    place: { each: newest(limit) },
  });
}

function uuidOf(digits: string): string {
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Asks every cell for an answer. Rejects when a cell is away. */
export async function askEveryCell({ query }: Queries): Promise<void> {
  await query({ text: 'select 1', place: { each: concatenated } });
}

/** Types of events by id; those without a type, or that do not exist any more, are omitted. */
export function readEventTypes(database: Queries, eventIds: readonly string[]): Promise<Map<string, string>> {
  return readOfEvents(database, eventIds, 'event_type');
}

/** Bodies of events by id. An event that does not exist any more is omitted. */
export function readBodies(database: Queries, eventIds: readonly string[]): Promise<Map<string, Buffer>> {
  return readOfEvents(database, eventIds, 'body');
}

async function readOfEvents<Value>(
  { query }: Queries,
  eventIds: readonly string[],
  column: 'event_type' | 'body',
): Promise<Map<string, Value>> {
  const rows = await query<{ id: string; value: Value }>({
    text: `
      select id, ${column} as value from events
      where received_at = any ($1::timestamptz[]) and id = any ($2::uuid[]) and ${column} is not null`,
    values: timesAndIds(eventIds),
    place: { ids: eventIds },
  });
  return new Map(rows.map(({ id, value }) => [id, value]));
}

export const TYPED_EVENTS_MAX = 20_000;
const TYPES_MAX = 100;
const TIMEOUT_MS = 5_000;

interface EventTypes {
  items: z.output<typeof eventTypeSchema>[];
  counted: number;
  /** When the oldest of them was received, ISO; null: there is no event. */
  since: string | null;
}

type TypeRow = EventTypes['items'][number] & { counted: number; since: string };

/** Joins the types of several cells: events that a webhook received before it moved are in another cell. */
const byType = summedBy<TypeRow>(
  ({ event_type }) => JSON.stringify(event_type),
  (one, other) => ({
    ...sumOf(one, other),
    newest_id: one.newest_id > other.newest_id ? one.newest_id : other.newest_id,
    // Each cell has its own limit.
    counted: Math.max(one.counted, other.counted),
    since: lesser(one.since, other.since)!,
  }),
);
const mostFrequent: Merge<TypeRow> = (byCell) =>
  byType(byCell)
    .sort((a, b) => b.events - a.events)
    .slice(0, TYPES_MAX);

/**
 * Counts the newest events of a webhook by type, the most frequent first, at most TYPED_EVENTS_MAX events of a cell and TYPES_MAX types.
 * @param from ISO; only events received at this time or later
 */
export async function countEventTypes({ query }: Queries, webhookId: string, from: string): Promise<EventTypes> {
  const rows = await query<TypeRow>({
    text: `
      with newest as (
        select id, event_type, received_at from events
        where webhook_id = $1 and received_at >= $2 order by received_at desc, id desc limit $3
      )
      select event_type, count(*)::int as events, max(id::text collate "C") as newest_id,
        (sum(count(*)) over ())::int as counted, ${isoText('min(min(received_at)) over ()')} as since
      from newest group by event_type
      order by events desc, event_type limit $4`,
    values: [webhookId, from, TYPED_EVENTS_MAX, TYPES_MAX],
    timeoutMs: TIMEOUT_MS,
    place: { each: mostFrequent },
  });
  const items = rows.map(({ event_type, events, newest_id }) => ({ event_type, events, newest_id }));
  const counted = Math.max(0, ...rows.map((row) => row.counted));
  return { items, counted, since: rows.reduce<string | null>((since, row) => lesser(since, row.since), null) };
}
