/** Lists of deliveries, newest first, and one delivery. */
import type { z } from 'zod';
import { HOUR_MS } from '../../../base/time/durations.ts';
import { type DeliveryState, deliverySchema } from '../../../model/events.ts';
import { newest, summed } from '../../connect/place.ts';
import type { Database, Queries } from '../../connect/pool.ts';
import { isoTime, uuidAt, uuidv7Milliseconds, uuidv7Time } from '../../ids.ts';
import { isoText, selectList } from '../../sql.ts';
import { isHeld } from '../claims/held.ts';
import { readEventTypes } from '../events/lists.ts';

interface DeliveryFilter {
  agentId?: string | null;
  webhookId?: string | null;
  state?: DeliveryState | null;
  eventId?: string | null;
  /** See isHeld. */
  held?: boolean | null;
  /** The whole reason. */
  reason?: string | null;
  /** ISO; the event was received at this time or later. */
  from?: string | null | undefined;
  /** ISO; the event was received before this time. */
  to?: string | null | undefined;
}

export type DeliveryRecord = z.output<typeof deliverySchema>;

type DeliveryRow = Omit<DeliveryRecord, 'event_type'>;

const record = selectList(deliverySchema.omit({ event_type: true }), 'deliveries', {
  // Infinity: set aside, see claims/held.ts.
  available_at: isoText(
    'case when isfinite(deliveries.available_at) then deliveries.available_at else deliveries.received_at end',
  ),
  order_key: `lpad(to_hex(deliveries.order_key), 16, '0')`,
  held: isHeld('deliveries'),
});

/** A span of time that was read in less than this is followed by a longer one. */
const SPAN_READ_MS = 50;
const FIRST_SPAN_MS = HOUR_MS;
const SPAN_GROWTH = 8;
/** 21 days. All earlier time is one span, the last one. */
const SPAN_MS_MAX = FIRST_SPAN_MS * SPAN_GROWTH ** 3;
/** Time limit of a list that is read span by span. */
const LIST_MS_MAX = 500;

/** Limit on the recent deliveries of an agent that are read and sorted for its first page: 50 ms. */
const RECENT_MAX = 50_000;

interface DeliveryList {
  rows: DeliveryRecord[];
  /** The cursor to continue from, if the time limit ended the search; null: the list is complete. */
  stoppedAt: string | null;
}

/**
 * Lists deliveries, newest first. A filter that no index answers in this order makes Postgres read other deliveries too. Such a list is read
 * span by span, with a time limit.
 * @param before id of the last delivery of the previous page, or where its search stopped
 * @param options for tests
 */
export async function listDeliveries(
  database: Database,
  filter: DeliveryFilter,
  before: string | null,
  limit: number,
  { msMax = LIST_MS_MAX, recentMax = RECENT_MAX } = {},
): Promise<DeliveryList> {
  const rows: DeliveryRow[] = [];
  const read = async (span: Span) => {
    rows.push(...(await readPage(database, { ...filter, ...span }, before, limit - rows.length)));
    return rows.length === limit;
  };
  const isWhole = !isScattered(filter) || (await isRecent(database, filter, before, limit, recentMax));
  const untilMs = performance.now() + msMax;
  if (isWhole) await read({ from: filter.from, to: filter.to });
  const stoppedAt = isWhole ? null : await inSpans(filter, before, untilMs, read);
  return { rows: await withTypes(database, rows), stoppedAt };
}

/** States with an index in the order of time. A plan for any state, as `keyed` makes it, does not use it. */
const isIndexed = (state: DeliveryFilter['state']) => state === 'dead' || state === 'dismissed';

/** Whether deliveries that pass the filter may lie among many others in the order of time. */
function isScattered({ agentId, webhookId, state, eventId, reason }: DeliveryFilter): boolean {
  if (eventId || state === 'dead' || (state === 'leased' && !webhookId)) return false;
  return Boolean(agentId || webhookId || reason) || state === 'filtered';
}

type Span = Pick<DeliveryFilter, 'from' | 'to'>;

/** Reads the spans of time of a filter, newest first, until `read` has enough. Returns where it stopped when the time was over. */
async function inSpans(
  { from, to }: Span,
  before: string | null,
  untilMs: number,
  read: (span: Span) => Promise<boolean>,
): Promise<string | null> {
  const ends = [Date.now(), to ? Date.parse(to) : Infinity, before === null ? Infinity : uuidv7Milliseconds(before)];
  let endMs = Math.min(...ends);
  let spanMs = FIRST_SPAN_MS;
  // The first span has no end, because another machine's clock may be ahead of this one.
  for (let end = to; ; ) {
    const startMs = endMs - spanMs;
    const isLast = spanMs > SPAN_MS_MAX || startMs <= (from ? Date.parse(from) : 0);
    const start = isLast ? from : isoTime(startMs);
    const beganMs = performance.now();
    if ((await read({ from: start, to: end })) || isLast) return null;
    const nowMs = performance.now();
    if (nowMs >= untilMs) return uuidAt(startMs);
    if (nowMs - beganMs < SPAN_READ_MS) spanMs *= SPAN_GROWTH;
    [endMs, end] = [startMs, start];
  }
}

interface Conditions {
  where: string;
  values: unknown[];
}

/**
 * SQL: a time as a literal. A plan for any values would have the partitions of all days: with 365 of them, 160 ms for each span, even of four
 * hours in all.
 */
const literal = (time: string) => `'${isoTime(Date.parse(time))}'`;

function conditionsOf(filter: DeliveryFilter, before: string | null, limit: number): Conditions {
  const { agentId, webhookId, state, eventId, held = null, reason, from, to } = filter;
  const values: unknown[] = [limit];
  const value = (given: unknown) => `$${values.push(given)}`;
  const conditions = [
    agentId && `agent_id = ${value(agentId)}`,
    webhookId && `webhook_id = ${value(webhookId)}`,
    state && `state = ${value(state)}`,
    held === true && `state = 'pending' and deliveries.order_key is not null and ${isHeld('deliveries')}`,
    held === false && `not ${isHeld('deliveries')}`,
    reason && `reason = ${value(reason)}`,
    // The event's time selects the partition.
    eventId && `deliveries.received_at = ${value(uuidv7Time(eventId))} and event_id = ${value(eventId)}`,
    from && `deliveries.received_at >= ${literal(from)}`,
    to && `deliveries.received_at < ${literal(to)}`,
    before && `deliveries.received_at <= ${literal(uuidv7Time(before))}`,
    before && `(deliveries.received_at, id) < (${value(uuidv7Time(before))}, ${value(before)}::uuid)`,
  ].filter(Boolean);
  return { where: ['true', ...conditions].join(' and '), values };
}

const isFirstOfAgent = ({ agentId, eventId, from, to }: DeliveryFilter, before: string | null) =>
  Boolean(agentId && !eventId && !from && !to && !before);

/** Reads deliveries that pass the filter, newest first. Planned for the given filter: the state selects one of the two tables. */
function readPage(
  database: Database,
  filter: DeliveryFilter,
  before: string | null,
  limit: number,
): Promise<DeliveryRow[]> {
  const { where, values } = conditionsOf(filter, before, limit);
  const { agentId, webhookId, state, eventId } = filter;
  return database.query<DeliveryRow>({
    text: `
      select ${record}
      from ${isFirstOfAgent(filter, before) ? firstOfAgent(where) : `deliveries where ${where}`}
      order by deliveries.received_at desc, id desc
      limit $1`,
    values,
    // The primary key has the webhook. The planner would choose to read and sort the rows of a span.
    ...(webhookId && !agentId && !eventId && !isIndexed(state) && { plan: 'keyed' }),
    // The deliveries of an event are in its cell.
    place: eventId ? { id: eventId } : { each: newest(limit) },
  });
}

/** SQL conditions: finished deliveries are in daily partitions, the others in one table, with the index deliveries_due. */
const finished = `state in ('done', 'dead', 'dismissed', 'filtered')`;
const unfinished = `state in ('pending', 'leased') and bytes >= 0`;
const page = 'order by received_at desc, id desc limit $1';

/**
 * SQL: the unfinished deliveries of an agent that can be among its newest $1. They have no index by age, only one by available_at, which is
 * never before their receipt. A delivery newer than the last one of a page is therefore available later than that one was received. By age,
 * Postgres read 270,000 deliveries of other agents first (147 ms).
 */
const recent = (where: string) => `
  deliveries where ${unfinished} and ${where} and available_at >= coalesce((
    select least(min(received_at), min(available_at))
    from (
      select received_at, available_at from (
        select * from deliveries where ${unfinished} and ${where} order by available_at desc limit 4 * $1
      ) deliveries ${page}
    ) newest having count(*) = $1), '-infinity')`;

/** SQL: the deliveries of an agent that can be among its newest $1. */
const firstOfAgent = (where: string) => `(
    (select * from deliveries where ${finished} and ${where} ${page})
    union all
    (select * from (select * from ${recent(where)} offset 0) deliveries ${page})
  ) deliveries`;

/** Whether the first page of an agent is found by available_at. Not after many replays: they are available later than newer deliveries. */
async function isRecent(
  database: Database,
  filter: DeliveryFilter,
  before: string | null,
  limit: number,
  max: number,
): Promise<boolean> {
  if (!isFirstOfAgent(filter, before)) return false;
  const { where, values } = conditionsOf(filter, before, limit);
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::int as count from (select from ${recent(where)} limit ${max + 1}) d`,
    values,
    place: { each: summed },
  });
  return counted.every(({ count }) => count <= max);
}

/** Adds the types of the events. A statement of its own, planned with its values: its plan has only the partitions of these events. */
async function withTypes(database: Queries, rows: readonly DeliveryRow[]): Promise<DeliveryRecord[]> {
  if (rows.length === 0) return [];
  const eventIds = rows.map((row) => row.event_id);
  const types = await readEventTypes(database, eventIds);
  return rows.map((row) => ({ ...row, event_type: types.get(row.event_id) ?? null }));
}

/** Finds a delivery; with an agent, only if it belongs to that agent. */
export async function findDelivery(
  { query }: Queries,
  agentId: string | null,
  id: string,
): Promise<DeliveryRecord | undefined> {
  const rows = await query<DeliveryRow>({
    name: 'find-delivery',
    text: `select ${record} from deliveries
           where deliveries.received_at = $1 and id = $2 and ($3::uuid is null or agent_id = $3)`,
    values: [uuidv7Time(id), id, agentId],
    place: { id },
  });
  return (await withTypes({ query }, rows))[0];
}
