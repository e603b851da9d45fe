/** Previous secrets that senders still use shortly before they end. */
import { QUARTER_SECONDS } from '../../../model/history.ts';
import type { Database } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';

const WEBHOOKS_MAX = 100;

/** Reads the webhooks whose previous secret was used in the last hour, and ends within a day and half of its overlap. @param nowMs Unix milliseconds. */
export function readUsedOldSecrets(
  { query }: Pick<Database, 'query'>,
  nowMs: number,
): Promise<{ webhook_id: string; name: string; rotated_at: string; ends_at: string }[]> {
  return query({
    name: 'read-used-old-secrets',
    text: `
      select w.id as webhook_id, w.name, ${isoText('n.created_at')} as rotated_at, ${isoText('o.expires_at')} as ends_at
      from webhook_secrets o
      join webhook_secrets n on n.webhook_id = o.webhook_id and n.slot = 'current'
      join webhooks w on w.id = o.webhook_id and w.deleted_at is null
      where o.slot = 'previous' and o.expires_at > $1
        and o.expires_at < $1::timestamptz + least(interval '1 day', (o.expires_at - n.created_at) / 2)
        and exists (
          select from history h
          where h.webhook_id = o.webhook_id and h.step = ${QUARTER_SECONDS} and h.at > $1::timestamptz - interval '1 hour' and h.by_previous > 0)
      order by o.expires_at
      limit ${WEBHOOKS_MAX}`,
    values: [new Date(nowMs).toISOString()],
  });
}
