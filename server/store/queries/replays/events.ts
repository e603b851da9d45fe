/** Delivers stored events again, to agents that are subscribed or beyond subscriptions. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Queries, Query } from '../../connect/pool.ts';
import { expected } from '../../connect/unavailable.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';
import { suspendedUntil } from '../agents/subscriptions.ts';
import { insertTargets, type ReplayTarget, recordTargets, targetsMade } from './targets.ts';

/** The lane of a replay: its deliveries are ordered among themselves, and wait for no others. Never 0, the lane of new events. */
function laneOf(id: string): bigint {
  return BigInt(`0x${id.replaceAll('-', '').slice(-15)}`) | 1n;
}

/**
 * Creates deliveries of events to the agents of the scope. Returns their ids; an event that does not exist has none. Beyond
 * subscriptions, the empty history keeps filters from judging them (claims/candidates.ts); else filters judge them like new ones.
 * @param jobId for a batch of a job: the deliveries are committed together with the progress of the job in the same cell, so that a batch that
 * is repeated because it was not committed at home creates no delivery twice. The batches of a job come in the order of the ids.
 */
export async function deliverAgain(
  database: Queries,
  eventIds: readonly string[],
  { agentIds, beyondSubscriptions }: ReplayScope,
  jobId: string | null = null,
): Promise<string[]> {
  const rows = await database.query<{ ids: string[]; targets: ReplayTarget[] }>({
    text: `
      with before as (select upto from job_progress where job_id = $5
      ), progress as (
        insert into job_progress (job_id, upto)
        select $5, id from unnest($2::uuid[]) id where $5::uuid is not null order by id desc limit 1
        on conflict (job_id) do update set upto = greatest(job_progress.upto, excluded.upto)
      ), again as (
        insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, history, order_key, order_lane, order_number)
        select delivery_id(e.id), e.webhook_id, a.id, e.id, e.received_at, e.bytes, case when $4 then '[]'::jsonb end,
          keyed.key, case when keyed.key is not null then $6::bigint end,
          case when keyed.key is not null then (select nextval('order_numbers')) end
        from events e
        join webhooks w on w.id = e.webhook_id
        join agents a on a.revoked_at is null and ($3::uuid[] is null or a.id = any ($3))
          and ($3 is not null and $4::boolean
            or exists (select from subscriptions s where s.webhook_id = e.webhook_id and s.agent_id = a.id))
        left join lateral (
          select e.order_keys[array_position(e.order_keys, s.order_id) + 1] as key
          from subscriptions s
          where s.webhook_id = e.webhook_id and s.agent_id = a.id and s.order_id is not null
        ) keyed on true
        where e.received_at = any ($1::timestamptz[]) and e.id = any ($2::uuid[])
          and ($5 is null or e.id > all (select upto from before))
        returning id, agent_id, webhook_id
      ), targets as (${insertTargets})
      select (select coalesce(json_agg(id), '[]') from again) as ids, ${targetsMade} as targets`,
    values: [
      arrayOf(new Set(eventIds.map(uuidv7Time))),
      arrayOf(eventIds),
      agentIds && arrayOf(agentIds),
      beyondSubscriptions,
      jobId,
      String(laneOf(jobId ?? randomUUID())),
    ],
    place: { ids: eventIds },
  });
  const targets = rows.flatMap((row) => row.targets);
  await recordTargets(database.query, targets);
  return expected(
    z.array(z.guid()),
    rows.flatMap((row) => row.ids),
  );
}

/** To whom events are replayed. */
export interface ReplayScope {
  /** Only to these agents; null: to all that are subscribed to the webhook of the event. */
  agentIds: readonly string[] | null;
  /** Deliver also events that filters exclude, and to agents of `agentIds` those of webhooks to which they are not subscribed. */
  beyondSubscriptions: boolean;
}

export interface Recipient {
  agentId: string;
  agentName: string;
  webhookId: string;
  webhookName: string;
  /** Null: no filter, or one that is suspended and lets everything through. */
  filter: string | null;
}

/** Reads the subscriptions of these agents (null: of all active ones) to these webhooks, agents by name. */
export function readRecipients(
  query: Query,
  webhookIds: readonly string[],
  agentIds: readonly string[] | null,
): Promise<Recipient[]> {
  return query<Recipient>({
    text: `
      select a.id as "agentId", a.name as "agentName", w.id as "webhookId", w.name as "webhookName",
        case when ${suspendedUntil('s')} is null then s.filter end as filter
      from subscriptions s
      join webhooks w on w.id = s.webhook_id
      join agents a on a.id = s.agent_id and a.revoked_at is null
      where s.webhook_id = any ($1::uuid[]) and ($2::uuid[] is null or a.id = any ($2))
      order by a.name, a.id`,
    values: [arrayOf(webhookIds), agentIds && arrayOf(agentIds)],
  });
}
