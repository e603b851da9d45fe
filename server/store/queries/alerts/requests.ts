/** Requests to ALERT_URL: creation, claims by one machine at a time, and results. Times are those of the database, whatever a machine's clock says. */
import type { Database, Query } from '../../connect/pool.ts';
import { type AlertRow, alertColumns, insertAlert } from './alerts.ts';

interface NewRequest {
  /** webhook-id. */
  id: string;
  alertId: string;
  type: 'alert.began' | 'alert.ended';
  /** JSON text. */
  body: string;
}

/** Alerts in one result. */
const UNREPORTED_MAX = 500;
/** A request this old is given up. */
const AGE_MAX_HOURS = 24;

/**
 * Reads the alerts without a request about their present state: active ones, and ended ones whose beginning was sent or is to be sent.
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
  /** It is too old to be sent. */
  too_old: boolean;
}

/**
 * Claims the oldest request that is due, for `leaseSeconds`; a machine that ends without a result leaves it to be claimed again. A request
 * waits for the earlier ones of its condition and subject. Null: none is due.
 */
export async function claimRequest(
  { query }: Pick<Database, 'query'>,
  leaseSeconds: number,
): Promise<ClaimedRequest | null> {
  const [row] = await query<ClaimedRequest>({
    name: 'claim-alert-request',
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

/** Records the result of an attempt, unless a later one has begun. */
export async function settleRequest(
  { query }: Pick<Database, 'query'>,
  { id, attempts }: ClaimedRequest,
  { state, status, error, retrySeconds }: AttemptResult,
): Promise<void> {
  await query({
    name: 'settle-alert-request',
    text: `
      update alert_requests
      set state = $3, last_status = $4, last_error = $5, next_attempt_at = now() + make_interval(secs => $6)
      where id = $1 and attempts = $2 and state = 'pending'`,
    values: [id, attempts, state, status, error, retrySeconds],
  });
  if (state === 'failed') await giveUpRest({ query }, id);
}

/** The end of an alert is not sent without its beginning. */
async function giveUpRest({ query }: Pick<Database, 'query'>, id: string): Promise<void> {
  await query({
    text: `
      update alert_requests set state = 'failed', last_error = 'the request before it was given up'
      where alert_id = (select alert_id from alert_requests where id = $1) and state = 'pending'`,
    values: [id],
  });
}

/** Reads the request with the latest attempt; undefined: there was none. */
export async function findLastAttempt({
  query,
}: Pick<Database, 'query'>): Promise<{ state: 'pending' | 'sent' | 'failed'; last_error: string | null } | undefined> {
  const [row] = await query<{ state: 'pending' | 'sent' | 'failed'; last_error: string | null }>({
    text: `select state, last_error from alert_requests where last_attempt_at is not null order by last_attempt_at desc limit 1`,
  });
  return row;
}
