/** Alerts: their beginning, their end, their list, and the requests about them to ALERT_URL. Times are those of the database. */
import type { AlertRequest } from '../../../model/alerts.ts';
import type { ReportedKind } from '../../../model/conditions.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { arrayOf, columnsOf, isoColumn, isoText } from '../../sql.ts';
import { countUndelivered } from './undelivered.ts';

export interface AlertRow {
  id: string;
  condition: ReportedKind;
  subject_id: string;
  subject_name: string;
  since: string;
  began_at: string;
  ended_at: string | null;
  value: number;
  threshold: number | null;
  /** Unfinished deliveries of its agent when it ended, if the agent was revoked; null: it was not. */
  undelivered: number | null;
}

export type ActiveAlert = AlertRow & { checked_at: string; calm_since: string | null };

/** Select list of an AlertRow, of the table alias `a`. */
const alertColumns = `a.id, a.condition, a.subject_id, a.subject_name, ${isoColumn('a.since')}, ${isoColumn('a.began_at')},
  ${isoColumn('a.ended_at')}, a.value, a.threshold, a.undelivered`;

/** Reads all active alerts, oldest first. */
export function readActiveAlerts(query: Query): Promise<ActiveAlert[]> {
  return query<ActiveAlert>({
    text: `select ${alertColumns}, ${isoColumn('a.checked_at')}, ${isoColumn('a.calm_since')}
           from alerts a where ended_at is null order by a.id`,
  });
}

/** Stores a new alert, unless it is stored already or its condition is active for its subject. */
export async function insertAlert(query: Query, alert: AlertRow): Promise<void> {
  const { id, condition, subject_id, subject_name, since, began_at, value, threshold } = alert;
  await query({
    text: `
      insert into alerts (id, condition, subject_id, subject_name, since, began_at, value, threshold, checked_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $6)
      on conflict do nothing`,
    values: [id, condition, subject_id, subject_name, since, began_at, value, threshold],
  });
}

export interface AlertProgress {
  id: string;
  /** The agent that the alert is about; null: it is about another subject. */
  agentId: string | null;
  value: number;
  /** ISO times. */
  checkedAt: string;
  calmSince: string | null;
  endedAt: string | null;
}

/** Records what was found out about active alerts. Returns those that ended. */
export async function updateAlerts(query: Query, alerts: readonly AlertProgress[]): Promise<AlertRow[]> {
  if (alerts.length === 0) return [];
  const over = alerts.filter(({ endedAt }) => endedAt !== null).flatMap(({ agentId }) => agentId ?? []);
  const left = over.length === 0 ? new Map<string | null, number>() : await countUndelivered(query, over);
  const rows = await query<AlertRow>({
    text: `
      update alerts a set value = g.value, checked_at = g.checked_at, calm_since = g.calm_since, ended_at = g.ended_at,
        undelivered = g.undelivered
      from unnest($1::uuid[], $2::float8[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::int[])
        g (id, value, checked_at, calm_since, ended_at, undelivered)
      where a.id = g.id and a.ended_at is null
      returning ${alertColumns}`,
    values: [
      ...columnsOf(alerts, 'id', 'value', 'checkedAt', 'calmSince', 'endedAt'),
      arrayOf(alerts.map(({ agentId, endedAt }) => (endedAt === null ? null : (left.get(agentId) ?? null)))),
    ],
  });
  return rows.filter(({ ended_at }) => ended_at !== null);
}

/** Lists alerts, newest first, with their requests. @param before id of the last alert of the previous page */
export function listAlerts(
  { query }: Queries,
  active: boolean | null,
  before: string | null,
  limit: number,
): Promise<(AlertRow & { requests: AlertRequest[] })[]> {
  return query({
    text: `
      select ${alertColumns}, (
        select coalesce(json_agg(json_build_object(
          'id', r.id, 'type', r.type, 'state', r.state, 'attempts', r.attempts, 'created_at', ${isoText('r.created_at')},
          'last_attempt_at', ${isoText('r.last_attempt_at')}, 'last_status', r.last_status, 'last_error', r.last_error
        ) order by r.number), '[]')
        from alert_requests r where r.alert_id = a.id) as requests
      from alerts a
      where ($1::boolean is null or (a.ended_at is null) = $1) and ($2::uuid is null or a.id < $2)
      order by a.id desc
      limit $3`,
    values: [active, before, limit],
  });
}

/** Counts active alerts by condition; conditions without any are omitted. */
export function countActiveAlerts({ query }: Queries): Promise<{ condition: ReportedKind; count: number }[]> {
  return query({
    text: 'select condition, count(*)::int as count from alerts where ended_at is null group by condition',
  });
}

/** Deletes alerts that ended `days` ago, with their requests. */
export async function deleteOldAlerts({ query }: Queries, days: number): Promise<void> {
  await query({ text: 'delete from alerts where ended_at < now() - make_interval(days => $1)', values: [days] });
}

interface NewRequest {
  id: string;
  alertId: string;
  type: 'alert.began' | 'alert.ended';
  body: string;
}

const UNREPORTED_MAX = 500;
/** A request this old is given up. */
const AGE_MAX_HOURS = 24;

/**
 * Reads the alerts without a request about their present state, at most UNREPORTED_MAX: active ones, and those that ended within AGE_MAX_HOURS
 * and whose beginning was sent or is to be sent.
 */
export function readUnreported(query: Query): Promise<AlertRow[]> {
  return query<AlertRow>({
    text: `
      select ${alertColumns}
      from alerts a
      where not exists (select from alert_requests r where r.alert_id = a.id and r.type = case when a.ended_at is null then 'alert.began' else 'alert.ended' end)
        and (a.ended_at is null or a.ended_at > now() - interval '${AGE_MAX_HOURS} hours'
          and exists (select from alert_requests r where r.alert_id = a.id and r.type = 'alert.began' and r.state <> 'failed'))
      order by coalesce(a.ended_at, a.began_at), a.id
      limit ${UNREPORTED_MAX}`,
  });
}

/** Stores a request that is due at once. */
export async function insertRequest(query: Query, { id, alertId, type, body }: NewRequest): Promise<void> {
  await query({
    text: `insert into alert_requests (id, alert_id, type, body, created_at, next_attempt_at) values ($1, $2, $3, $4, now(), now())`,
    values: [id, alertId, type, body],
  });
}

/** An alert that began while the database was away, and the request about its beginning. */
export interface CarriedAlert {
  alert: AlertRow;
  request: { id: string; body: string };
  sent: boolean;
}

/** Stores a carried alert unless it is stored already. */
export async function adoptAlert(query: Query, { alert, request, sent }: CarriedAlert): Promise<void> {
  await insertAlert(query, alert);
  await query({
    text: `
      insert into alert_requests (id, alert_id, type, body, state, created_at, next_attempt_at, last_attempt_at)
      select $1, id, 'alert.began', $3, $4, began_at, now(), began_at from alerts where id = $2
      on conflict do nothing`,
    values: [request.id, alert.id, request.body, sent ? 'sent' : 'pending'],
  });
}

export interface ClaimedRequest {
  id: string;
  alert_id: string;
  type: 'alert.began' | 'alert.ended';
  body: string;
  /** Number of this attempt, from 1. */
  attempts: number;
  too_old: boolean;
}

/**
 * Claims the oldest request that is due, for `leaseSeconds`; a machine that ends without a result leaves it to be claimed again. A request
 * waits for the earlier ones of its condition and subject. Null: none is due.
 */
export async function claimRequest({ query }: Queries, leaseSeconds: number): Promise<ClaimedRequest | null> {
  const [row] = await query<ClaimedRequest>({
    text: `
      update alert_requests r
      set attempts = r.attempts + 1, last_attempt_at = now(), next_attempt_at = now() + make_interval(secs => $1)
      where r.id = (
        select c.id from alert_requests c join alerts a on a.id = c.alert_id
        where c.state = 'pending' and c.next_attempt_at <= now() and not exists (
          select from alert_requests e join alerts b on b.id = e.alert_id
          where e.state = 'pending' and e.number < c.number and b.condition = a.condition and b.subject_id = a.subject_id
        )
        order by c.number
        limit 1
        for update of c skip locked
      )
      returning r.id, r.alert_id, r.type, r.body, r.attempts, r.created_at < now() - interval '${AGE_MAX_HOURS} hours' as too_old`,
    values: [leaseSeconds],
  });
  return row ?? null;
}

interface AttemptResult {
  state: 'pending' | 'sent' | 'failed';
  status: number | null;
  error: string | null;
  /** Time until the next attempt; only for a pending request. */
  retrySeconds: number;
}

/** Records the result of an attempt, unless a later one has begun. The end of an alert is not sent without its beginning. */
export async function endRequest(
  { query }: Queries,
  { id, attempts }: ClaimedRequest,
  { state, status, error, retrySeconds }: AttemptResult,
): Promise<void> {
  await query({
    text: `
      with result as (
        update alert_requests
        set state = $3, last_status = $4, last_error = $5, next_attempt_at = now() + make_interval(secs => $6)
        where id = $1 and attempts = $2 and state = 'pending'
        returning alert_id
      )
      update alert_requests r set state = 'failed', last_error = 'the request before it was given up'
      from result where r.alert_id = result.alert_id and r.id <> $1 and r.state = 'pending' and $3 = 'failed'`,
    values: [id, attempts, state, status, error, retrySeconds],
  });
}

/** Reads the request with the latest attempt; undefined: there was none. */
export async function findLastAttempt({
  query,
}: Queries): Promise<{ state: 'pending' | 'sent' | 'failed'; last_error: string | null } | undefined> {
  const [row] = await query<{ state: 'pending' | 'sent' | 'failed'; last_error: string | null }>({
    text: `select state, last_error from alert_requests where last_attempt_at is not null order by last_attempt_at desc limit 1`,
  });
  return row;
}
