/**
 * Claims deliveries: leases those that come next (next.ts), and returns them with their events.
 *
 * The statement is planned once per connection: that took a claim of one from 1,998 to 710 us of Postgres (bench/NOTES.md). Its commit must
 * be flushed: when it was not, and Postgres was killed right after a claim, all of its receipts were issued again (5 of 5), so a holder of
 * the old receipts could reject or extend another agent's lease.
 *
 * Events of one batch become claimable at the same moment. The index returns those stored first, and their ids increase from line to
 * line, so a single consumer gets the lines in order.
 */
import type { Database, Query } from '../../connect/pool.ts';
import { DatabaseUnavailable } from '../../connect/unavailable.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf, asText } from '../../sql.ts';
import { leaseNext } from './lease.ts';
import type { Claimed, ClaimOrder, Days, LeasedRow } from './order.ts';
import type { Receipt } from './receipts.ts';
import { withRoom } from './room.ts';
import { nothingSettled, type Settled, settledByAck } from './settle.ts';

export interface ClaimResult {
  claimed: Claimed[];
  settled: Settled;
  /** Leases that ended without an acknowledgement. */
  expired: number;
  /** How many of their deliveries became dead letters. */
  dead: number;
  /** False: the acknowledgements are committed, and the database was lost before the claim was. */
  complete: boolean;
}

/**
 * Claims the next deliveries. A delivery whose last lease expired becomes a dead letter in the same statement. A statement that finds only
 * such deliveries is repeated, so that the claim gets the deliveries behind them.
 * @param acks receipts of deliveries in this cell, which the first statement acknowledges. Only for an agent with neither `max_leased`
 * nor filters, whose claim is one statement
 * @param ids deliveries that filters have let through: no others are leased. Null: any
 */
export async function claimDeliveries(
  database: Database,
  order: ClaimOrder,
  { acks = [], ids = null }: { acks?: readonly Receipt[]; ids?: readonly string[] | null } = {},
): Promise<ClaimResult> {
  const result: ClaimResult = { claimed: [], settled: nothingSettled, expired: 0, dead: 0, complete: true };
  for (let receipts = acks; ; receipts = []) {
    try {
      const { rows, acknowledged } = await leaseWithRoom(database, order, receipts, ids);
      if (receipts.length > 0) result.settled = await settledByAck(database, order.agentId, receipts, acknowledged);
      const leased = rows.filter(({ state }) => state === 'leased');
      result.expired += rows.filter(({ expired }) => expired).length;
      result.dead += rows.length - leased.length;
      result.claimed = await withEvents(database.query, order, leased);
      if (result.claimed.length > 0 || rows.length === 0) return result;
    } catch (error) {
      const isSettled = result.settled !== nothingSettled;
      if (!isSettled || !(error instanceof DatabaseUnavailable)) throw error;
      return { ...result, complete: false };
    }
  }
}

function leaseWithRoom(
  database: Database,
  order: ClaimOrder,
  acks: readonly Receipt[],
  ids: readonly string[] | null,
): ReturnType<typeof leaseNext> {
  if (!order.isLimited) return leaseNext(database.query, order, acks, ids);
  return withRoom(database, order.agentId, async (query, room) =>
    room > 0
      ? leaseNext(query, { ...order, max: Math.min(order.max, room) }, acks, ids)
      : { rows: [], acknowledged: [] },
  );
}

/** Adds the events of other days, and leaves out deliveries whose events retention has removed. Oldest first. */
async function withEvents(query: Query, { cell, days }: ClaimOrder, rows: readonly LeasedRow[]): Promise<Claimed[]> {
  const elsewhere = rows.filter(({ eventId, body }) => body === null && !isWithin(days, uuidv7Time(eventId)));
  const events = elsewhere.length === 0 ? [] : await readEvents(query, cell, elsewhere);
  const eventOf = new Map(events.map(({ id, ...event }) => [id, event]));
  return rows
    .map((row) => (row.body === null ? { ...row, ...eventOf.get(row.eventId) } : row))
    .filter((row): row is LeasedRow & Claimed => row.body !== null)
    .sort((a, b) => (a.eventId < b.eventId ? -1 : 1));
}

function isWithin({ from, to }: Days, time: string): boolean {
  return from <= time && time < to;
}

type ReadEvent = Pick<Claimed, 'eventType' | 'contentType' | 'headers' | 'body'> & { id: string };

function readEvents(query: Query, cell: number, of: readonly LeasedRow[]): Promise<ReadEvent[]> {
  const times = of.map(({ eventId }) => uuidv7Time(eventId));
  return query<ReadEvent>({
    name: 'events-of-claim',
    plan: 'keyed',
    text: `
      select e.id, e.event_type as "eventType", e.content_type as "contentType", ${asText('e.headers')} as headers, ${asText('e.body')} as body
      from unnest($1::uuid[], $2::timestamptz[]) r (id, received_at)
      cross join lateral (
        select id, event_type, content_type, headers, body from events
        where received_at = r.received_at and id = r.id and received_at between $3 and $4
        limit 1
      ) e`,
    values: [
      arrayOf(of.map(({ eventId }) => eventId)),
      arrayOf(times),
      times.reduce((a, b) => (a < b ? a : b)),
      times.reduce((a, b) => (a > b ? a : b)),
    ],
    place: { cell },
  });
}
