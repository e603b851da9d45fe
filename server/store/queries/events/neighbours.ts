/** Events near another one in time: the previous and the next that pass a filter, and the previous of the same type. */
import { lesser, newest } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';
import { isoText, Placeholders } from '../../sql.ts';
import {
  deliveryCondition,
  type EventFilter,
  type EventSpan,
  eventConditions,
  timeConditions,
  where,
} from './conditions.ts';

/** Limit on the events of all webhooks that a search reads in each direction: 4 ms if none of them passes. */
const NEIGHBOURS_READ_MAX = 10_000;
/** The same limit if the filter searches bodies. */
const BODIES_READ_MAX = 500;

/** Ids of the previous and the next event that pass the filter, near in time; null: none was found. */
export async function findNeighbours(
  { query }: Queries,
  id: string,
  filter: EventFilter,
  { from, to }: Pick<EventSpan, 'from' | 'to'>,
): Promise<Neighbours> {
  const given = new Placeholders();
  const of = `(${given.of(uuidv7Time(id), 'timestamptz')}, ${given.of(id, 'uuid')})`;
  const span = { from, to, before: null, downTo: null };
  const conditions = [
    ...timeConditions(given, span, 'e.received_at'),
    ...eventConditions(given, filter),
    deliveryCondition(given, filter, span),
  ];
  const limit = filter.text === null ? NEIGHBOURS_READ_MAX : BODIES_READ_MAX;
  const nearest = (comparison: string, direction: string) => `(
    select e.id from (
      select * from events where (received_at, id) ${comparison} ${of}
      order by received_at ${direction}, id ${direction} limit ${limit}
    ) e
    ${where(conditions)} limit 1)`;
  const [row] = await query<Neighbours>({
    text: `select ${nearest('<', 'desc')} as older, ${nearest('>', 'asc')} as newer`,
    values: given.values,
    place: { each: (byCell) => [byCell.flat().reduce(nearer)], lenient: true },
  });
  return row!;
}

interface Neighbours {
  older: string | null;
  newer: string | null;
}

function nearer(one: Neighbours, other: Neighbours): Neighbours {
  const later = one.older !== null && other.older !== null && one.older > other.older;
  return { older: later ? one.older : (other.older ?? one.older), newer: lesser(one.newer, other.newer) };
}

export interface PreviousEvent {
  id: string;
  received_at: string;
  body: Buffer;
}

/** The previous event of the same webhook and type, near in time. @param type null: events without a type */
export async function findPreviousOfType(
  { query }: Queries,
  { id, webhook_id, event_type }: { id: string; webhook_id: string; event_type: string | null },
): Promise<PreviousEvent | undefined> {
  const [row] = await query<PreviousEvent>({
    text: `
      select e.id, ${isoText('e.received_at')} as received_at, e.body from (
        select * from events where (received_at, id) < ($1, $2::uuid)
        order by received_at desc, id desc limit ${NEIGHBOURS_READ_MAX}
      ) e
      where e.webhook_id = $3 and e.event_type is not distinct from $4
      limit 1`,
    values: [uuidv7Time(id), id, webhook_id, event_type],
    place: { each: newest(1), lenient: true },
  });
  return row;
}
