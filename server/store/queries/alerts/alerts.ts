/** Alerts: their beginning, their end, and their list. */
import type { AlertRequest } from '../../../model/alerts.ts';
import type { ReportedKind } from '../../../model/conditions.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { arrayOf, isoColumn, isoText } from '../../sql.ts';
import { countUndelivered } from './undelivered.ts';

/** An alert as stored. */
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
export const alertColumns = `a.id, a.condition, a.subject_id, a.subject_name, ${isoColumn('a.since')}, ${isoColumn('a.began_at')},
  ${isoColumn('a.ended_at')}, a.value, a.threshold, a.undelivered`;

export function readActiveAlerts(query: Query): Promise<ActiveAlert[]> {
  return query<ActiveAlert>({
    text: `select ${alertColumns}, ${isoColumn('a.checked_at')}, ${isoColumn('a.calm_since')}
           from alerts a where ended_at is null order by a.id`,
  });
}

/** Stores a new alert, unless it is stored already or its condition is active for its subject. */
export async function insertAlert(query: Query, alert: AlertRow): Promise<void> {
  await query({
    text: `
      insert into alerts (id, condition, subject_id, subject_name, since, began_at, value, threshold, checked_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $6)
      on conflict do nothing`,
    values: [
      alert.id,
      alert.condition,
      alert.subject_id,
      alert.subject_name,
      alert.since,
      alert.began_at,
      alert.value,
      alert.threshold,
    ],
  });
}

export interface AlertProgress {
  id: string;
  /** Null: it is about something else. */
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
  const times = (of: (alert: AlertProgress) => string | null) => arrayOf(alerts.map((alert) => of(alert) ?? 'null'));
  const rows = await query<AlertRow>({
    text: `
      update alerts a set value = g.value, checked_at = g.checked_at, calm_since = g.calm_since, ended_at = g.ended_at,
        undelivered = g.undelivered
      from unnest($1::uuid[], $2::float8[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::int[])
        g (id, value, checked_at, calm_since, ended_at, undelivered)
      where a.id = g.id and a.ended_at is null
      returning ${alertColumns}`,
    values: [
      arrayOf(alerts.map(({ id }) => id)),
      arrayOf(alerts.map(({ value }) => value)),
      times(({ checkedAt }) => checkedAt),
      times(({ calmSince }) => calmSince),
      times(({ endedAt }) => endedAt),
      arrayOf(alerts.map(({ agentId, endedAt }) => (endedAt === null ? undefined : left.get(agentId)) ?? 'null')),
    ],
  });
  return rows.filter(({ ended_at }) => ended_at !== null);
}

/** Lists alerts, newest first, with their requests. @param before id of the last alert of the previous page */
export function listAlerts(
  { query }: Pick<Database, 'query'>,
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
export function countActiveAlerts({
  query,
}: Pick<Database, 'query'>): Promise<{ condition: ReportedKind; count: number }[]> {
  return query({
    text: 'select condition, count(*)::int as count from alerts where ended_at is null group by condition',
  });
}

/** Deletes alerts that ended `days` ago, with their requests. */
export async function deleteOldAlerts({ query }: Pick<Database, 'query'>, days: number): Promise<void> {
  await query({ text: 'delete from alerts where ended_at < now() - make_interval(days => $1)', values: [days] });
}
