/** Claims: leases deliveries, and returns them with their events. Each way to choose them has a statement of its own, see the imports. */
import { randomUUID } from 'node:crypto';
import { asText } from '../../byte-text.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { DatabaseUnavailable } from '../../connect/unavailable.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';
import type { ClaimedRows } from './claim-and-ack.ts';
import { claimInRound } from './in-round.ts';
import { claimOldest } from './oldest.ts';
import type { Claimed, ClaimOrder, Days, JudgedDeliveries, LeasedRow } from './order.ts';
import type { Receipt } from './receipts.ts';
import { withRoom } from './room.ts';
import { type Settled, settledByAck } from './settle.ts';

/** Leases that a claim found expired without an acknowledgement, and how many of their deliveries became dead letters. */
interface EndedLeases {
  expired: number;
  dead: number;
}

/**
 * Leases the oldest deliveries, round-robin over webhooks: the first delivery of each webhook, then the second of each, and so on.
 * A flood in one webhook does not delay the others. `place` tells where a claim ended within a round, and the next claim continues
 * there: with max 1, the default, webhooks take turns from claim to claim. Rows locked by another claim are skipped, never waited for.
 *
 * Alternatives measured: Postgres 15, 100,000 pending deliveries of 1 KiB, one connection, claim and ack alternating, all variants
 * side by side in one run on a shared machine; median CPU time of Postgres in us per claimed delivery:
 *
 *     deliveries per claim                        1      10     100     500
 *     planned on each call                     1998     237      52    31.9
 *     planned once per connection               710     106      38    32.1
 *       and commit not flushed                  590      95      36    31.2
 *         and webhooks joined before, not after 583      91      36    31.0
 *         and the body escaped, not in hex      589      92      33    26.7
 *
 * Rejected: not flushing the commit. It cut the time of a claim of one from 2.0 to 0.8 ms, but is incorrect: with Postgres killed
 * right after a claim, all of its receipts were issued again (5 of 5), so a holder of the old receipts could reject or extend another
 * agent's lease. The form in which bodies are sent: byte-text.ts.
 * Without the index deliveries_of_agent a claim costs about 2 us less and an ack 2.5 us less, but the agents' lists need the index.
 * Fillfactor 50: no measurable difference.
 *
 * Round-robin by webhook costs little more than order by age: CPU time of Postgres in us per claimed delivery, 60,000 pending, medians
 * of 9 alternating rounds, by age and by webhook. One webhook: 1,162 and 1,198 with max 1, 153 and 158 with 10, 59 and 65 with 100.
 * Ten webhooks: 1,562 and 1,560, 246 and 244, 76 and 80. By age, 40 claims of 1 behind 5,000 older deliveries never reached two other
 * webhooks.
 *
 * Events of one batch become claimable at the same moment. The index returns those stored first, and their ids increase from line to
 * line, so a single consumer gets the lines in order.
 *
 * A delivery whose last lease expired becomes a dead letter in the same statement. When a statement finds only such deliveries, the
 * claim repeats it to look behind them.
 * @param judged null: the agent has no filters
 */
export async function claimDeliveries(
  database: Database,
  order: ClaimOrder,
  onEnded: (ended: EndedLeases) => void = () => {},
  judged: JudgedDeliveries | null = null,
): Promise<Claimed[]> {
  for (;;) {
    const rows = order.isLimited
      ? await withRoom(database, order.agentId, async (query, room) =>
          room > 0 ? claimOnce(query, { ...order, max: Math.min(order.max, room) }, judged) : [],
        )
      : await claimOnce(database.query, order, judged);
    const claimed = await leasedOf(database, order, rows, onEnded);
    if (claimed.length > 0 || rows.length === 0) return claimed;
  }
}

/**
 * Claims as claimDeliveries does, and acknowledges in the first statement what was claimed before. For agents with neither `max_leased` nor
 * filters: their claims take several statements. The acknowledgements are committed before the statements that follow, so in an outage of
 * those the outcome is returned without deliveries.
 * @returns `complete`: false when the claim failed
 */
export async function claimAndAck(
  database: Database,
  order: ClaimOrder,
  acks: readonly Receipt[],
  onEnded: (ended: EndedLeases) => void,
): Promise<{ claimed: Claimed[]; complete: boolean; settled: Settled }> {
  const first = await claimFirst(database.query, order, null, acks);
  const settled = await settledByAck(database, order.agentId, acks, first.acknowledged);
  try {
    const rows = first.rows.length > 0 ? first.rows : await claimFurther(database.query, order, null);
    const claimed = await leasedOf(database, order, rows, onEnded);
    const isOver = claimed.length > 0 || rows.length === 0;
    return { claimed: isOver ? claimed : await claimDeliveries(database, order, onEnded), complete: true, settled };
  } catch (error) {
    if (error instanceof DatabaseUnavailable) return { claimed: [], complete: false, settled };
    throw error;
  }
}

/** Reports the leases that ended, and returns the others with their events. */
function leasedOf(
  { query }: Database,
  order: ClaimOrder,
  rows: readonly LeasedRow[],
  onEnded: (ended: EndedLeases) => void,
): Promise<Claimed[]> {
  const leased = rows.filter(({ state }) => state === 'leased');
  onEnded({ expired: rows.filter(({ expired }) => expired).length, dead: rows.length - leased.length });
  return withEvents(query, order, leased);
}

/** When the oldest delivery that the claim saw became claimable, Unix milliseconds; null: it saw none. */
export function oldestSinceMs(claimed: readonly Claimed[]): number | null {
  return claimed.length === 0 ? null : Math.min(...claimed.map(({ sinceMs }) => sinceMs));
}

async function claimOnce(query: Query, order: ClaimOrder, judged: JudgedDeliveries | null): Promise<LeasedRow[]> {
  const { rows } = await claimFirst(query, order, judged, []);
  return rows.length > 0 ? rows : claimFurther(query, order, judged);
}

/** One statement. */
function claimFirst(
  query: Query,
  order: ClaimOrder,
  judged: JudgedDeliveries | null,
  acks: readonly Receipt[],
): Promise<ClaimedRows> {
  const webhookId = onlyWebhookOf(order, judged);
  return webhookId === null ? claimInRound(query, order, judged, acks) : claimOldest(query, order, webhookId, acks);
}

/**
 * Looks once more after a first statement without rows. A claim of one webhook looks at all of them: the agent may have more than when it was
 * read. That of an agent of many webhooks looks from another webhook on: another claim may have locked all that it looked at.
 */
async function claimFurther(query: Query, order: ClaimOrder, judged: JudgedDeliveries | null): Promise<LeasedRow[]> {
  const isOneWebhook = onlyWebhookOf(order, judged) !== null;
  if (judged !== null || !(isOneWebhook || order.hasManyWebhooks)) return [];
  const from = isOneWebhook ? order : { ...order, afterWebhookId: randomUUID() };
  return (await claimInRound(query, from, null, [])).rows;
}

/** The webhook of which alone the claim takes the oldest deliveries; null: it takes those of all in turn. */
function onlyWebhookOf({ onlyWebhookId, webhookIds }: ClaimOrder, judged: JudgedDeliveries | null): string | null {
  if (judged !== null || onlyWebhookId === null) return null;
  return (webhookIds?.includes(onlyWebhookId) ?? true) ? onlyWebhookId : null;
}

/** Adds the events of other days, and leaves out deliveries whose events retention has removed. Oldest first. */
async function withEvents(
  query: Query,
  { cell, days }: Pick<ClaimOrder, 'cell' | 'days'>,
  rows: readonly LeasedRow[],
): Promise<Claimed[]> {
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

type EventRow = Pick<Claimed, 'eventType' | 'contentType' | 'headers' | 'body'> & { id: string };

function readEvents(query: Query, cell: number, of: readonly LeasedRow[]): Promise<EventRow[]> {
  const times = of.map(({ eventId }) => uuidv7Time(eventId));
  return query<EventRow>({
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
