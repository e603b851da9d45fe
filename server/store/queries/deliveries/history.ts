/**
 * The history of a delivery: how each lease ended, and when users replayed or dismissed the delivery.
 *
 * Claims and acks must not pay for it, so an attempt is written when it ends in something other than an acknowledgement. The last
 * attempt is described by the row itself (leased_at, leased_from, available_at, finished_at) until then. Entries in the row cost 1.02 times
 * no history in claims of 100; a table of their own costs 1.10 and needs partitions (bench/NOTES.md).
 */
import type { Attempt } from '../../../model/attempts.ts';
import type { Database } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';

/** Entries kept of a delivery. DELIVERY_MAX_ATTEMPTS is 10 by default; replays start again. Older entries are dropped. */
export const HISTORY_MAX = 50;

/** Members of an entry as stored, all optional but the outcome and the time. `lease` is the number in the receipt. */
interface Entry {
  outcome: NonNullable<Attempt['outcome']>;
  at: string;
  lease?: number;
  leased_at?: string;
  leased_until?: string;
  address?: string;
  reason?: string;
  delay?: number;
  /** For an action of a user: the state of the delivery before it. */
  state?: string;
  finished_at?: string;
}

/** SQL of a history with one more entry. `d` is the row before the change. */
function appended(history: string, entry: string): string {
  return `(case when jsonb_array_length(${history}) >= ${HISTORY_MAX} then ${history} - 0 else coalesce(${history}, '[]') end
    || jsonb_strip_nulls(${entry}))`;
}

/**
 * SQL of the history of the delivery `d` when its lease ends.
 * @param at SQL of the time at which it ended
 * @param more SQL of more members: pairs of a name and a value
 */
export function leaseEnded(
  outcome: 'rejected' | 'expired' | 'released' | 'acknowledged',
  at: string,
  more = '',
): string {
  return appended(
    'd.history',
    `jsonb_build_object('outcome', '${outcome}', 'at', ${at}, 'lease', d.leases, 'leased_at', d.leased_at,
      'leased_until', d.available_at, 'address', host(d.leased_from)${more})`,
  );
}

/**
 * SQL of the history of the delivery `d` when a user replays or dismisses it. Keeps what an undo restores.
 * @param action SQL of the id of the action on many deliveries; null: a single one
 */
export function userActed(outcome: 'replayed' | 'dismissed' | 'restored', action: string): string {
  // The acknowledgement is not in the history unless the delivery was replayed and restored before.
  const isKept = `coalesce(d.history @> jsonb_build_array(jsonb_build_object('lease', d.leases)), false)`;
  const ended = `case when d.state = 'done' and not ${isKept} then ${leaseEnded('acknowledged', 'd.finished_at')} else d.history end`;
  return appended(
    `(${ended})`,
    `jsonb_build_object('outcome', '${outcome}', 'at', now(), 'action', ${action}, 'state', d.state, 'attempts', d.attempts,
      'finished_at', d.finished_at)`,
  );
}

interface HistoryRow {
  id: string;
  state: string;
  history: Entry[] | null;
  lease: number;
  leasedAt: Date | null;
  leasedUntil: Date;
  address: string | null;
  finishedAt: Date | null;
  revokedAt: Date | null;
}

/**
 * Reads the attempts of deliveries, oldest first, by delivery id: of one delivery, or of all deliveries of an event. Times are those of
 * the database.
 */
export async function readAttempts(
  { query }: Pick<Database, 'query'>,
  of: { deliveryId: string } | { eventId: string },
  nowMs: number,
): Promise<Map<string, Attempt[]>> {
  const [column, id] = 'eventId' in of ? ['event_id', of.eventId] : ['id', of.deliveryId];
  const rows = await query<HistoryRow>({
    name: `attempts-by-${column}`,
    text: `
      select d.id, d.state, d.history, d.leases as lease, d.leased_at as "leasedAt", d.available_at as "leasedUntil",
        host(d.leased_from) as address, d.finished_at as "finishedAt", a.revoked_at as "revokedAt"
      from deliveries d
      left join agents a on a.id = d.agent_id
      where d.received_at = $1 and d.${column} = $2
      limit 200`,
    values: [uuidv7Time(id), id],
    place: { id },
  });
  return new Map(rows.map((row) => [row.id, attemptsOf(row, nowMs)]));
}

function attemptsOf(row: HistoryRow, nowMs: number): Attempt[] {
  const ended = (row.history ?? []).flatMap(attemptsUpTo);
  const { state, leasedAt, finishedAt } = row;
  if (state === 'filtered') return [...ended, filteredAt(finishedAt)];
  const isKept = ended.some(({ lease }) => lease === row.lease);
  if (isKept || leasedAt === null || (state !== 'leased' && state !== 'done')) return ended;
  const lease = { lease: row.lease, leased_at: leasedAt, leased_until: row.leasedUntil, address: row.address };
  if (state === 'done') return [...ended, attempt({ ...lease, outcome: 'acknowledged', at: finishedAt })];
  // Expiry is noticed by the next claim, and a revoked agent makes none.
  if (row.revokedAt !== null && row.revokedAt < row.leasedUntil)
    return [...ended, attempt({ ...lease, outcome: 'revoked', at: row.revokedAt })];
  if (row.leasedUntil.getTime() <= nowMs)
    return [...ended, attempt({ ...lease, outcome: 'expired', at: row.leasedUntil })];
  return [...ended, attempt({ ...lease, outcome: null, at: null })];
}

/** The entry of the history, and before the first replay of a filtered delivery how it was filtered, which has no entry of its own. */
function attemptsUpTo(entry: Entry): Attempt[] {
  const wasFiltered = entry.outcome === 'replayed' && entry.state === 'filtered';
  return [...(wasFiltered ? [filteredAt(new Date(entry.finished_at!))] : []), attemptOf(entry)];
}

function filteredAt(at: Date | null): Attempt {
  return attempt({ outcome: 'filtered', at, leased_at: null, leased_until: null });
}

function attemptOf({ state: _, finished_at: __, leased_at, leased_until, at, ...entry }: Entry): Attempt {
  return attempt({
    ...entry,
    at: new Date(at),
    leased_at: leased_at === undefined ? null : new Date(leased_at),
    leased_until: leased_until === undefined ? null : new Date(leased_until),
  });
}

function attempt(given: {
  outcome: Attempt['outcome'];
  at: Date | null;
  lease?: number;
  leased_at: Date | null;
  leased_until: Date | null;
  address?: string | null;
  reason?: string;
  delay?: number;
}): Attempt {
  const { outcome, at, lease = null, leased_at, leased_until, address = null, reason = null, delay = null } = given;
  const isoOf = (time: Date | null) => time?.toISOString() ?? null;
  return {
    outcome,
    lease,
    leased_at: isoOf(leased_at),
    lease_seconds: leased_at && leased_until && Math.round((leased_until.getTime() - leased_at.getTime()) / 1000),
    agent_address: address,
    at: isoOf(at),
    duration_ms: leased_at && at && Math.max(0, at.getTime() - leased_at.getTime()),
    reason,
    retry_seconds: delay,
  };
}
