/** What arrives at webhooks: when each last stored an event, and when it last refused a signature. */
import type { Database } from '../pool.ts';
import { isoText } from './iso-text.ts';

/** Webhooks of one answer, as many as a page of their list has. */
export const ACTIVE_WEBHOOKS_MAX = 200;

export interface WebhookActivity {
  webhook_id: string;
  last_event_at: string | null;
  last_rejection_at: string | null;
  events_removed_before: string | null;
}

/** Of these webhooks, or with null of all; newest first, ids that nothing has are left out. Reads one index entry a webhook. */
export function readWebhookActivity(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[] | null,
): Promise<WebhookActivity[]> {
  return query<WebhookActivity>({
    name: 'webhook-activity',
    plan: 'once',
    text: `
      select w.id as webhook_id, ${isoText('w.last_event_at')} as last_event_at,
        (select ${isoText('r.received_at')} from rejections r where r.webhook_id = w.id order by r.id desc limit 1) as last_rejection_at,
        ${isoText('w.events_removed_before')} as events_removed_before
      from webhooks w
      where w.deleted_at is null and ($1::uuid[] is null or w.id = any ($1))
      order by w.created_at desc, w.id desc
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: [ids && `{${ids.join(',')}}`],
  });
}

/**
 * Notes when events were last received, in Unix milliseconds by webhook; earlier ones change nothing. Rows are locked in the order of
 * their ids: processes that write at once wait for each other, never in a circle.
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
    values: [`{${[...lastMs.keys()].join(',')}}`, `{${times.join(',')}}`],
  });
}
