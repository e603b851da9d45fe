/** Webhooks that have been silent for longer than they expect, or than is usual for them. */
import type { Queries } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';
import { hourOf, lastEventAt } from '../webhooks/state.ts';
import { WEBHOOKS_MAX } from './condition-signs.ts';

/**
 * A webhook is silent after twice its longest pause of the last seven days, and at least an hour, provided that it had events in this many
 * hours of the seven days.
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
const silentSince = `greatest(coalesce(${lastEventAt}, w.created_at), w.enabled_at)`;

/**
 * Reads the enabled webhooks that have been silent for longer than they expect, longest silent first.
 * @param nowMs Unix milliseconds.
 */
export function readOverdueWebhooks(
  { query }: Queries,
  nowMs: number,
): Promise<(SilentWebhook & { expect_every_seconds: number })[]> {
  return query({
    text: `
      select w.id as webhook_id, w.name, ${isoText(silentSince)} as silent_since, w.expect_every_seconds
      from webhooks w
      where w.deleted_at is null and w.enabled and w.expect_every_seconds is not null
        and ${silentSince} < $1::timestamptz - make_interval(secs => w.expect_every_seconds)
      order by ${silentSince}, w.id
      limit ${WEBHOOKS_MAX}`,
    values: [new Date(nowMs).toISOString()],
  });
}

/** SQL: like silentSince, from the state `s` of the webhook `w`. */
const stateSilentSince =
  'greatest(coalesce(s.last_event_at, w.last_event_at, w.created_at), w.last_event_at, w.enabled_at)';
/** SQL: the hours with events in the seven days until $2. */
const activeHours = 's.hours << ($2 - s.hour)';
/**
 * SQL: half of the present silence in hours, rounded up. A pause of this length leaves a run of hours without events that is one hour
 * shorter.
 */
const pauseHours = `ceil(extract(epoch from $1::timestamptz - ${stateSilentSince}) / 7200)::int`;

/**
 * Reads the enabled webhooks without an expectation that are silent by their own history, longest silent first. The hours with events are a
 * text of ones and zeros, in which a pause is a run of zeros.
 * @param nowMs Unix milliseconds.
 */
export function readSilentWebhooks({ query }: Queries, nowMs: number): Promise<SilentWebhook[]> {
  return query<SilentWebhook>({
    text: `
      select w.id as webhook_id, w.name, ${isoText(stateSilentSince)} as silent_since, w.expect_every_seconds
      from (
        select * from webhook_state
        where hour > $2 - 168 and coalesce(last_event_at, '-infinity') < $1::timestamptz - interval '${SILENT_SECONDS_MIN} seconds'
          and bit_count(hours) >= ${ACTIVE_HOURS_MIN}
        offset 0
      ) s join webhooks w on w.id = s.webhook_id
      where w.deleted_at is null and w.enabled and w.expect_every_seconds is null
        and ${stateSilentSince} < $1::timestamptz - make_interval(secs => ${SILENT_SECONDS_MIN})
        and bit_count(${activeHours}) >= ${ACTIVE_HOURS_MIN}
        and strpos(btrim((${activeHours})::text, '0'), repeat('0', ${pauseHours} - 1)) = 0
      order by ${stateSilentSince}, w.id
      limit ${WEBHOOKS_MAX}`,
    values: [new Date(nowMs).toISOString(), hourOf(nowMs)],
  });
}
