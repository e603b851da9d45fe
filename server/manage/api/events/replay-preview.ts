/**
 * How many deliveries a replay creates for each agent, counted for up to 100,000 events. Filters are not asked: the replay creates the
 * deliveries, and a filter judges them when the agent claims.
 */
import { z } from 'zod';
import { problemLater, type Result } from '../../../base/http/problem.ts';
import { idOf, nameOf } from '../../../model/fields.ts';
import type { Database } from '../../../store/connect/pool.ts';
import type { EventFilter, EventSpan } from '../../../store/queries/events/conditions.ts';
import { readRecipients } from '../../../store/queries/replays/recipients.ts';
import { activeAgents } from './replay.ts';
import type { EventSearch } from './search.ts';

const COUNTED_EVENTS_MAX = 100_000;

export const previewSchema = z.object({
  events: z.int().describe(`matching events, at most ${COUNTED_EVENTS_MAX}`),
  exact: z
    .boolean()
    .describe('false: there are more, or the time limit of the count was reached; the numbers are lower bounds'),
  agents: z
    .array(
      z.object({
        agent_id: idOf('agent'),
        name: nameOf('agent'),
        deliveries: z.int().describe('deliveries by its subscriptions'),
        filtered: z
          .boolean()
          .describe('true: a filter judges some of them when the agent claims, and may exclude them'),
        beyond: z
          .int()
          .describe('further deliveries with beyond_subscriptions, of webhooks to which it is not subscribed'),
      }),
    )
    .describe('agents that the replay can reach, by name'),
});

interface Order {
  filter: EventFilter;
  span: Pick<EventSpan, 'from' | 'to'>;
  /** Null: all that are subscribed. */
  agentIds: readonly string[] | null;
  /** True once the client has left. */
  isGone: () => boolean;
}

/** Counts what the replay of the events that match would deliver to each agent, without a change. */
export async function previewReplay(
  { database, search }: { database: Database; search: EventSearch },
  { filter, span, agentIds, isGone }: Order,
): Promise<Result<z.input<typeof previewSchema>>> {
  const given = await activeAgents(database, agentIds);
  if (given.kind === 'problem') return given;
  const tally = await search.tally({ filter, span: { ...span, before: null }, limit: COUNTED_EVENTS_MAX, isGone });
  if (tally === null) return problemLater('search_busy', 1);
  const { counts, total, exact } = tally;
  const recipients = await readRecipients(database.query, [...counts.keys()], agentIds);
  const subscribed = recipients.map(({ agentId, agentName }) => [agentId, { id: agentId, name: agentName }] as const);
  const agents = (given.value ?? [...new Map(subscribed).values()]).map(({ id, name }) => {
    const own = recipients.filter(({ agentId }) => agentId === id);
    const deliveries = own.reduce((sum, { webhookId }) => sum + counts.get(webhookId)!, 0);
    const filtered = own.some(({ filter }) => filter !== null);
    return { agent_id: id, name, deliveries, filtered, beyond: given.value === null ? 0 : total - deliveries };
  });
  return { kind: 'done', value: { events: Math.min(total, COUNTED_EVENTS_MAX), exact, agents } };
}
