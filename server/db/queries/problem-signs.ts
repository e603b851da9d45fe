/** Signs that something is wrong, from the history of the webhooks, and names for what they concern. */
import type { Database } from '../pool.ts';
import { arrayOf, isoColumn } from './sql.ts';

/** Limit on the webhooks in one result. */
const WEBHOOKS_MAX = 100;
/**
 * A webhook is silent after twice its longest pause of the last seven days, and after an hour at least. It must have had events in
 * this many hours of those days: the pauses of a webhook that is rarely used say nothing. Nights and weekends are pauses like others.
 */
const ACTIVE_HOURS_MIN = 24;

interface RefusedRequests {
  webhook_id: string;
  name: string;
  accepted: number;
  rejected: number;
  limited: number;
}

/** Reads the webhooks with refused requests in the last 60 minutes, most refused first. Reads one row a webhook and minute. */
export function readRefusedRequests({ query }: Pick<Database, 'query'>): Promise<RefusedRequests[]> {
  return query<RefusedRequests>({
    name: 'read-refused-requests',
    text: `
      select w.id as webhook_id, w.name, h.accepted, h.rejected, h.limited
      from (
        select webhook_id, sum(accepted)::float8 as accepted, sum(rejected)::float8 as rejected, sum(limited)::float8 as limited
        from history where step = 60 and at >= now() - interval '1 hour'
        group by webhook_id having sum(rejected + limited) > 0
      ) h join webhooks w on w.id = h.webhook_id
      where w.deleted_at is null
      order by h.rejected + h.limited desc, w.id
      limit ${WEBHOOKS_MAX}`,
  });
}

interface SilentWebhook {
  webhook_id: string;
  name: string;
  last_event_at: string;
}

/** Reads the enabled webhooks that are silent by their own history, longest silent first. Reads one row a webhook and hour of a week. */
export function readSilentWebhooks({ query }: Pick<Database, 'query'>): Promise<SilentWebhook[]> {
  return query<SilentWebhook>({
    name: 'read-silent-webhooks',
    text: `
      with pauses as (
        select webhook_id, at - lag(at) over (partition by webhook_id order by at) as pause
        from history where step = 3600 and at >= now() - interval '7 days' and accepted > 0
      ), usual as (
        select webhook_id, max(pause) as longest from pauses group by webhook_id having count(*) >= ${ACTIVE_HOURS_MIN}
      )
      select w.id as webhook_id, w.name, ${isoColumn('w.last_event_at')}
      from usual u join webhooks w on w.id = u.webhook_id
      where w.deleted_at is null and w.enabled and w.last_event_at < now() - greatest(interval '1 hour', 2 * u.longest)
      order by w.last_event_at, w.id
      limit ${WEBHOOKS_MAX}`,
  });
}

/** Reads the names of agents by id; unknown ids are omitted. */
export async function readNamesOfAgents(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await query<{ id: string; name: string }>({
    name: 'read-names-of-agents',
    text: 'select id, name from agents where id = any ($1::uuid[])',
    values: [arrayOf(ids)],
  });
  return new Map(rows.map(({ id, name }) => [id, name]));
}
