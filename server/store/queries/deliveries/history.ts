/**
 * The history of a delivery: how each lease ended, and when users replayed or dismissed it. An attempt is written when it ends otherwise than
 * by an acknowledgement; other columns of the row describe the last attempt. Claims of 100 cost 1.02 times those without a history; with a
 * history in a table of its own 1.10 (bench/NOTES.md).
 */
import type { Attempt } from '../../../model/events.ts';
import type { Queries } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';

/** Entries kept of a delivery. DELIVERY_MAX_ATTEMPTS is 10 by default; replays start again. Older entries are dropped. */
export const HISTORY_MAX = 50;

type Time = Date | string | null;

/** How an attempt ended. `lease` is the number in the receipt. */
interface Ended {
  outcome: Attempt['outcome'];
  at: Time;
  lease?: number | null;
  leased_at?: Time;
  leased_until?: Time;
  address?: string | null;
  reason?: string | null;
  delay?: number | null;
}

/** An entry as stored. */
interface Entry extends Ended {
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

interface AttemptsRow {
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
  { query }: Queries,
  of: { deliveryId: string } | { eventId: string },
  nowMs: number,
): Promise<Map<string, Attempt[]>> {
  const [column, id] = 'eventId' in of ? ['event_id', of.eventId] : ['id', of.deliveryId];
  const rows = await query<AttemptsRow>({
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

function attemptsOf(row: AttemptsRow, nowMs: number): Attempt[] {
  const { state, lease, leasedAt, leasedUntil, address, finishedAt, revokedAt } = row;
  const ended = (row.history ?? []).flatMap(attemptsUpTo);
  if (state === 'filtered') return [...ended, attempt({ outcome: 'filtered', at: finishedAt })];
  const isKept = ended.some((known) => known.lease === lease);
  if (isKept || leasedAt === null || (state !== 'leased' && state !== 'done')) return ended;
  const last = (outcome: Attempt['outcome'], at: Date | null) =>
    attempt({ outcome, at, lease, leased_at: leasedAt, leased_until: leasedUntil, address });
  if (state === 'done') return [...ended, last('acknowledged', finishedAt)];
  // Expiry is noticed by the next claim, and a revoked agent makes none.
  if (revokedAt !== null && revokedAt < leasedUntil) return [...ended, last('revoked', revokedAt)];
  if (leasedUntil.getTime() <= nowMs) return [...ended, last('expired', leasedUntil)];
  return [...ended, last(null, null)];
}

/** The attempts of an entry. The filtering of a delivery has no entry of its own: it is added before the replay that followed it. */
function attemptsUpTo(entry: Entry): Attempt[] {
  const wasFiltered = entry.outcome === 'replayed' && entry.state === 'filtered';
  return [...(wasFiltered ? [attempt({ outcome: 'filtered', at: entry.finished_at! })] : []), attempt(entry)];
}

function attempt({ outcome, lease = null, address = null, reason = null, delay = null, ...times }: Ended): Attempt {
  const [at, leasedAt, leasedUntil] = [times.at, times.leased_at, times.leased_until].map((time) =>
    time ? new Date(time) : null,
  ) as [Date | null, Date | null, Date | null];
  return {
    outcome,
    lease,
    leased_at: leasedAt?.toISOString() ?? null,
    lease_seconds: leasedAt && leasedUntil && Math.round((leasedUntil.getTime() - leasedAt.getTime()) / 1000),
    agent_address: address,
    at: at?.toISOString() ?? null,
    duration_ms: leasedAt && at && Math.max(0, at.getTime() - leasedAt.getTime()),
    reason,
    retry_seconds: delay,
  };
}
