/** Who gets the events of a replay. */
import type { Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';
import { suspendedUntil } from '../agents/subscriptions.ts';

/** To whom events are replayed. */
export interface ReplayScope {
  /** Only to these agents; null: to all that are subscribed to the webhook of the event. */
  agentIds: readonly string[] | null;
  /** Also what filters exclude and, to agents of `agentIds`, the events of webhooks to which they are not subscribed. */
  beyondSubscriptions: boolean;
}

/** The subscription of an active agent. */
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
