import type { Database } from '../pool.ts';

export interface ClaimOrder {
  agentId: string;
  max: number;
  leaseSeconds: number;
  /** Null: of all webhooks that the agent is subscribed to. */
  webhookIds: readonly string[] | null;
  /** Of all bodies together; the first delivery passes whatever its size. */
  bytesMax: number;
  /** A delivery that used them up becomes a dead letter instead of being claimed again. */
  attemptsMax: number;
}

/** A delivery under lease, with its event. */
export interface Claimed {
  id: string;
  attempt: number;
  leasedUntil: string;
  eventId: string;
  webhookId: string;
  webhookName: string;
  receivedAt: string;
  contentType: string | null;
  headers: Buffer;
  body: Buffer;
}

/**
 * Leases the oldest deliveries, fairly over webhooks: each webhook's first, then each one's second, and so on, so that a
 * flood in one does not keep the others waiting. Rows that another claim is about to take are skipped, never waited for.
 */
export function claimDeliveries(database: Database, order: ClaimOrder): Promise<Claimed[]> {
  return database.query<Claimed>({
    name: 'claim-deliveries',
    text: `
      with candidates as materialized (
        select d.received_at, d.id, d.webhook_id, d.available_at, d.bytes
        from subscriptions s
        cross join lateral (
          select received_at, id, webhook_id, available_at, bytes
          from deliveries
          where agent_id = $1 and webhook_id = s.webhook_id
            and state in ('pending', 'leased') and available_at <= now()
          order by available_at
          limit $2
          for update skip locked
        ) d
        where s.agent_id = $1 and ($4::uuid[] is null or s.webhook_id = any ($4))
      ), in_turn as (
        select *, row_number() over (partition by webhook_id order by available_at) as turn
        from candidates
        order by turn, available_at
        limit $2
      ), chosen as (
        select received_at, id, webhook_id
        from (select *, sum(bytes) over (order by turn, available_at, id) - bytes as bytes_before from in_turn) t
        where bytes_before < $6
      ), claimed as (
        update deliveries d
        set state = case when d.attempts < $5 then 'leased' else 'dead' end,
          attempts = case when d.attempts < $5 then d.attempts + 1 else d.attempts end,
          finished_at = case when d.attempts < $5 then null else now() end,
          reason = case when d.attempts < $5 then d.reason else coalesce(d.reason, 'the last lease ended without an answer') end,
          available_at = now() + make_interval(secs => $3)
        from chosen c
        where d.received_at = c.received_at and d.id = c.id and d.webhook_id = c.webhook_id
        returning d.id, d.state, d.attempts, d.available_at, d.event_id, d.webhook_id, d.received_at
      )
      select c.id, c.attempts as attempt, c.event_id as "eventId", c.webhook_id as "webhookId", w.name as "webhookName",
        to_char(c.available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "leasedUntil",
        to_char(c.received_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "receivedAt",
        e.content_type as "contentType", e.headers, e.body
      from claimed c
      join events e on e.received_at = c.received_at and e.id = c.event_id and e.webhook_id = c.webhook_id
      join webhooks w on w.id = c.webhook_id
      where c.state = 'leased'
      order by c.received_at, c.id`,
    values: [
      order.agentId,
      order.max,
      order.leaseSeconds,
      order.webhookIds && `{${order.webhookIds.join(',')}}`,
      order.attemptsMax,
      order.bytesMax,
    ],
  });
}

/** Which of these agents could claim something now; one query for all that wait. */
export async function agentsWithWork(database: Database, agentIds: readonly string[]): Promise<string[]> {
  const rows = await database.query<{ id: string }>({
    name: 'agents-with-work',
    text: `
      select a.id
      from unnest($1::uuid[]) a (id)
      where exists (
        select from subscriptions s
        cross join lateral (
          select from deliveries
          where agent_id = a.id and webhook_id = s.webhook_id
            and state in ('pending', 'leased') and available_at <= now()
          limit 1
        ) d
        where s.agent_id = a.id
      )`,
    values: [`{${agentIds.join(',')}}`],
  });
  return rows.map((row) => row.id);
}
