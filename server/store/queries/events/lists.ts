/** What lists of events show besides the events: how their deliveries stand, how many match, and events by the beginning of an id. */

import type { z } from 'zod';
import { eventDeliveriesSchema } from '../../../model/events.ts';
import { concatenated, newest } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { isTimedId, uuidv7Time } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';
import { type NewEvent, newEventColumns } from './events.ts';

type EventDeliveries = z.output<typeof eventDeliveriesSchema>;

/**
 * Counts the deliveries of these events by state; events without deliveries are omitted. The statement is planned on each call, with its
 * values, so that the plan contains only the partitions of the events. Deliveries have no index on event_id, but their received_at is that of
 * the event: a millisecond with a batch of 1,000 events is read once, not once for each event. Of 400,000 deliveries, the 1,000 of 50 events
 * with 20 agents each take 1.1 ms.
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
    place: { each: newest(limit, ({ id }) => id) },
  });
}

function uuidOf(digits: string): string {
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Rejects when a cell is away. */
export async function askEveryCell({ query }: Pick<Database, 'query'>): Promise<void> {
  await query({ text: 'select 1', place: { each: concatenated } });
}

/** Types of events by id; those without a type, or that do not exist any more, are omitted. */
export async function readEventTypes(
  { query }: Pick<Database, 'query'>,
  eventIds: readonly string[],
): Promise<Map<string, string>> {
  const rows = await query<{ id: string; type: string }>({
    text: `
      select id, event_type as type from events
      where received_at = any ($1::timestamptz[]) and id = any ($2::uuid[]) and event_type is not null`,
    values: timesAndIds(eventIds),
    place: { ids: eventIds },
  });
  return new Map(rows.map(({ id, type }) => [id, type]));
}

/** Bodies of events by id. An event that does not exist any more is omitted. */
export async function readBodies(database: Database, eventIds: readonly string[]): Promise<Map<string, Buffer>> {
  const rows = await database.query<{ id: string; body: Buffer }>({
    text: 'select id, body from events where received_at = any ($1::timestamptz[]) and id = any ($2::uuid[])',
    values: timesAndIds(eventIds),
    place: { ids: eventIds },
  });
  return new Map(rows.map(({ id, body }) => [id, body]));
}
