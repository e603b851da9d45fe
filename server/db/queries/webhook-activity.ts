/** Webhook activity: when each webhook last stored an event, and when it last rejected a signature. */
import type { Database } from '../pool.ts';
import { arrayOf, isoColumn, isoText } from './sql.ts';

/** Limit on the webhooks in one result; equals the page size of the webhook list. */
export const ACTIVE_WEBHOOKS_MAX = 200;

export interface WebhookActivity {
  webhook_id: string;
  last_event_at: string | null;
  last_rejection_at: string | null;
  events_removed_before: string | null;
}

/** Reads the activity of these webhooks (null: of all), newest first. Unknown ids are omitted. Reads one index entry per webhook. */
export function readWebhookActivity(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[] | null,
): Promise<WebhookActivity[]> {
  return query<WebhookActivity>({
    name: 'webhook-activity',
    plan: 'once',
    text: `
      select w.id as webhook_id, ${isoColumn('w.last_event_at')},
        (select ${isoText('r.received_at')} from rejections r where r.webhook_id = w.id order by r.id desc limit 1) as last_rejection_at,
        ${isoColumn('w.events_removed_before')}
      from webhooks w
      where w.deleted_at is null and ($1::uuid[] is null or w.id = any ($1))
      order by w.created_at desc, w.id desc
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: [ids && arrayOf(ids)],
  });
}

/**
 * Records when each webhook last received an event, in Unix milliseconds; earlier times change nothing. Rows are locked in the order of
 * their ids, so concurrent processes cannot deadlock.
 */
export async function writeLastEvents({ query }: Database, lastMs: ReadonlyMap<string, number>): Promise<void> {
  const times = [...lastMs.values()].map((ms) => new Date(ms).toISOString());
  await query({
    name: 'write-last-events',
    text: `
      with given as (
        select * from unnest($1::uuid[], $2::timestamptz[]) g (id, at)
      ), locked as (
        select w.id, given.at from webhooks w join given using (id)
        where w.last_event_at is null or w.last_event_at < given.at
        order by w.id for no key update of w
      )
      update webhooks w set last_event_at = greatest(w.last_event_at, locked.at)
      from locked
      where w.id = locked.id`,
    values: [arrayOf(lastMs.keys()), arrayOf(times)],
  });
}
