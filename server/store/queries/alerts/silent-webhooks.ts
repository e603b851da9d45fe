/** Webhooks without events for longer than they expect, or than is usual for them. */

import type { Database } from '../../connect/pool.ts';
import { ALL_WEBHOOKS_TIMEOUT_MS } from '../../many-webhooks.ts';
import { arrayOf, isoText } from '../../sql.ts';
import { hoursSince } from '../webhooks/history.ts';

/** Limit on the webhooks in one result, unless the caller has its own. */
const WEBHOOKS_MAX = 100;
/**
 * A webhook is silent after twice its longest pause of the last seven days, and after an hour at least. It must have had events in
 * this many hours of those days: the pauses of a webhook that is rarely used say nothing. Nights and weekends are pauses like others.
 */
const ACTIVE_HOURS_MIN = 24;
const SILENT_SECONDS_MIN = 3_600;

interface SilentWebhook {
  webhook_id: string;
  name: string;
  /** Last event or, if later, when the webhook was created or enabled again. */
  silent_since: string;
  expect_every_seconds: number | null;
}

/** SQL: since when the webhook `w` has had no event while it could have one. `greatest` ignores null. */
const silentSince = 'greatest(coalesce(w.last_event_at, w.created_at), w.enabled_at)';

/**
 * Reads the enabled webhooks that have been silent for longer than they expect, longest silent first.
 * @param nowMs Unix milliseconds.
 */
export function readOverdueWebhooks(
  { query }: Pick<Database, 'query'>,
  nowMs: number,
  webhooksMax = WEBHOOKS_MAX,
): Promise<(SilentWebhook & { expect_every_seconds: number })[]> {
  return query({
    name: 'read-overdue-webhooks',
    text: `
      select w.id as webhook_id, w.name, ${isoText(silentSince)} as silent_since, w.expect_every_seconds
      from webhooks w
      where w.deleted_at is null and w.enabled and w.expect_every_seconds is not null
        and ${silentSince} < $1::timestamptz - make_interval(secs => w.expect_every_seconds)
      order by ${silentSince}, w.id
      limit $2`,
    values: [new Date(nowMs).toISOString(), webhooksMax],
  });
}

/** The longest pause of a webhook that is often used. */
interface UsualPause {
  webhook_id: string;
  longest_seconds: number;
}

/**
 * Reads the longest pause of the last seven days of each enabled webhook without an expectation that could be silent within `validMs`: it
 * is often used, and had no event for an hour less that time. Its pauses until then are over. Reads one row a webhook and hour of a week:
 * 420 ms of CPU for 930,000 rows, and up to five times as much in a statement for each part of the ids.
 * @param nowMs Unix milliseconds.
 */
export function readUsualPauses(
  { query }: Pick<Database, 'query'>,
  nowMs: number,
  validMs: number,
): Promise<UsualPause[]> {
  return query<UsualPause>({
    name: 'read-usual-pauses',
    text: `
      with pauses as (
        select webhook_id, at - lag(at) over (partition by webhook_id order by at) as pause
        from ${hoursSince(`date_trunc('hour', $1::timestamptz, 'UTC') - interval '7 days'`, '$1::timestamptz')} h where accepted > 0
      ), usual as (
        select webhook_id, max(pause) as longest from pauses group by webhook_id having count(*) >= ${ACTIVE_HOURS_MIN}
      )
      select u.webhook_id, extract(epoch from u.longest)::float8 as longest_seconds
      from usual u join webhooks w on w.id = u.webhook_id
      where w.deleted_at is null and w.enabled and w.expect_every_seconds is null
        and ${silentSince} < $1::timestamptz - make_interval(secs => $2::float8)`,
    values: [new Date(nowMs).toISOString(), SILENT_SECONDS_MIN - validMs / 1000],
    timeoutMs: ALL_WEBHOOKS_TIMEOUT_MS,
  });
}

/**
 * Reads the enabled webhooks without an expectation that are silent by their own history, longest silent first.
 * @param nowMs Unix milliseconds.
 */
export function readSilentWebhooks(
  { query }: Pick<Database, 'query'>,
  nowMs: number,
  usual: readonly UsualPause[],
): Promise<SilentWebhook[]> {
  return query<SilentWebhook>({
    name: 'read-silent-webhooks',
    text: `
      select w.id as webhook_id, w.name, ${isoText(silentSince)} as silent_since, w.expect_every_seconds
      from unnest($2::uuid[], $3::float8[]) u (webhook_id, longest_seconds) join webhooks w on w.id = u.webhook_id
      where w.deleted_at is null and w.enabled and w.expect_every_seconds is null
        and ${silentSince} < $1::timestamptz - make_interval(secs => greatest(${SILENT_SECONDS_MIN}, 2 * u.longest_seconds))
      order by ${silentSince}, w.id
      limit ${WEBHOOKS_MAX}`,
    values: [
      new Date(nowMs).toISOString(),
      arrayOf(usual.map(({ webhook_id }) => webhook_id)),
      arrayOf(usual.map(({ longest_seconds }) => longest_seconds)),
    ],
  });
}
