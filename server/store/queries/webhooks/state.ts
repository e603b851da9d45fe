/** The state of webhooks: what requests change, in one narrow row each. One statement writes it together with the history. */
import { HOUR_MS } from '../../../base/time/durations.ts';

/** In `recent`, an event of this age counts half. */
export const HALF_LIFE_HOURS = 12;

/** Hours since 1970. @param ms Unix milliseconds */
export const hourOf = (ms: number) => Math.floor(ms / HOUR_MS);

/** SQL: when the webhook `w` last received an event; null: never. Times from before webhook_state existed are in webhooks. */
export const lastEventAt =
  'greatest(w.last_event_at, (select last_event_at from webhook_state where webhook_id = w.id))';

/** SQL: what is left of `recent` after hours. Bounded below, since Postgres refuses a factor or a result that underflows. */
const faded = (recent: string, hours: string) =>
  `greatest(${recent} * power(0.5, least(greatest(${hours}, 0), 1000) / ${HALF_LIFE_HOURS}.0::float8), 1e-9)`;
/** SQL: the uses were counted for the present current secret. Otherwise it was rotated since, and they belong to the previous secret. */
const isCurrent = 'coalesce(s.secret_id = excluded.secret_id, true)';

/** SQL: adds `given` to the states, locked in the order of their ids. 8 us a row; updates of webhooks and webhook_secrets took 16 and 15. */
export const addToState = `
  insert into webhook_state as s
    (webhook_id, last_event_at, events, bytes, hour, hours, recent, secret_id, uses, used_at, previous_uses, previous_used_at)
  select webhook_id, last_event_at, accepted, bytes, floor(seconds / 3600)::int, (accepted > 0)::int::bit(168), accepted, secret_id,
    uses, case when uses > 0 then now() end, previous_uses, case when previous_uses > 0 then now() end
  from given where accepted > 0 or uses > 0 or previous_uses > 0
  order by webhook_id
  on conflict (webhook_id) do update set
    last_event_at = greatest(s.last_event_at, excluded.last_event_at),
    events = s.events + excluded.events,
    bytes = s.bytes + excluded.bytes,
    hour = greatest(s.hour, excluded.hour),
    hours = (s.hours << greatest(excluded.hour - s.hour, 0)) | (excluded.hours << greatest(s.hour - excluded.hour, 0)),
    recent = ${faded('s.recent', 'excluded.hour - s.hour')} + ${faded('excluded.recent', 's.hour - excluded.hour')},
    secret_id = coalesce(s.secret_id, excluded.secret_id),
    uses = s.uses + case when ${isCurrent} then excluded.uses else 0 end,
    used_at = greatest(s.used_at, case when ${isCurrent} then excluded.used_at end),
    previous_uses = s.previous_uses + case when ${isCurrent} then excluded.previous_uses else excluded.uses end,
    previous_used_at = greatest(s.previous_used_at, case when ${isCurrent} then excluded.previous_used_at else excluded.used_at end)`;
