/** Replays a stored event as new deliveries, with an audit entry, and counts the deliveries that a replay of many events would create. */
import { z } from 'zod';
import { type Problem, problem, problemLater, type Result } from '../../../base/http/problem.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import { idOf, nameOf } from '../../../model/fields.ts';
import { verdicts } from '../../../model/filters/evaluate.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import type { Database, Queries, Query } from '../../../store/connect/pool.ts';
import { type ActiveAgent, readAgents } from '../../../store/queries/agents/active-agents.ts';
import type { EventFilter, EventSpan } from '../../../store/queries/events/conditions.ts';
import { type EventRecord, findEvent } from '../../../store/queries/events/events.ts';
import {
  deliverAgain,
  type Recipient,
  type ReplayScope,
  readRecipients,
} from '../../../store/queries/replays/events.ts';
import type { EventSearch } from './search.ts';

/** Limit on the reasons that the problem `no_recipients` lists. */
const REASONS_MAX = 5;

/** Delivers an event to the agents of the scope, all or none. Resolves with the ids of the new deliveries. */
export async function replayEvent(
  { database, judge }: { database: Database; judge: FilterJudge },
  actor: Actor,
  eventId: string,
  scope: ReplayScope,
): Promise<Result<string[]>> {
  const { agentIds, beyondSubscriptions } = scope;
  const named = await activeAgents(database, agentIds);
  if (named.kind === 'problem') return named;
  const event = await findEvent(database, null, eventId);
  if (event === undefined) return problem('event_unknown');
  const judged = beyondSubscriptions ? null : await judgeRecipients({ database, judge }, event, named.value);
  const deliver = async (query: Query) => {
    if (judged === null) return deliverAgain({ query }, [eventId], scope);
    const { passing, undecided } = judged;
    return [
      // The filters of these agents passed the event. `beyondSubscriptions` keeps a claim from judging it again.
      ...(await deliverAgain({ query }, [eventId], { agentIds: passing, beyondSubscriptions: true })),
      ...(await deliverAgain({ query }, [eventId], { agentIds: undecided, beyondSubscriptions: false })),
    ];
  };
  return database.transaction<Result<string[]>>(async (query) => {
    const deliveryIds = await deliver(query);
    if (deliveryIds.length === 0) return noRecipients(judged);
    const target = { kind: 'event', id: eventId, name: eventId };
    const after = { agent_ids: agentIds, beyond_subscriptions: beyondSubscriptions, delivery_ids: deliveryIds };
    await record(query, actor, { action: 'event.replay', target, after });
    return { kind: 'done', value: deliveryIds };
  });
}

function noRecipients(judged: JudgedEvent | null): Problem {
  const { unsubscribed = [], excluded = [] } = judged ?? {};
  const reasons = [
    ...unsubscribed.map(({ name }) => `agent ${name} is not subscribed to the webhook of the event`),
    ...excluded.map(({ agentName, filter }) => `the filter of agent ${agentName} excludes the event: ${filter}`),
  ];
  if (reasons.length === 0) return problem('no_recipients');
  const more = reasons.length > REASONS_MAX ? [`and ${reasons.length - REASONS_MAX} more`] : [];
  const why = [...reasons.slice(0, REASONS_MAX), ...more].join('; ').replace(/^./, (first) => first.toUpperCase());
  return problem(
    'no_recipients',
    `No agent would get this event. ${why}. A replay beyond subscriptions and filters delivers it anyway.`,
  );
}

/** The agents with these ids, or the problem of ids that no active agent has. Null stays null: no ids are given. */
export async function activeAgents(
  database: Queries,
  given: readonly string[] | null,
): Promise<Result<ActiveAgent[] | null>> {
  if (given === null) return { kind: 'done', value: null };
  const agents = await readAgents(database, given, given.length);
  const unknown = given.filter((id) => !agents.some((agent) => agent.id === id));
  if (unknown.length === 0) return { kind: 'done', value: agents };
  const errors = unknown.map((id) => ({
    pointer: `/agent_ids/${given.indexOf(id)}`,
    detail: `No active agent has the id ${id}.`,
  }));
  return problem('invalid_request', undefined, { errors });
}

interface JudgedEvent {
  /** Ids of the agents that get the event. */
  passing: string[];
  /** Ids of the agents whose filter gave no verdict. */
  undecided: string[];
  /** Subscriptions whose filter excludes the event. */
  excluded: Recipient[];
  /** Named agents that are not subscribed. */
  unsubscribed: ActiveAgent[];
}

/** Judges an event by the subscriptions and filters of these agents; null: of all agents. */
export async function judgeRecipients(
  { database, judge }: { database: Database; judge: FilterJudge },
  event: EventRecord & { body: Buffer },
  named: readonly ActiveAgent[] | null,
): Promise<JudgedEvent> {
  const { webhook_id: webhookId, headers, content_type: contentType, event_type: eventType, bytes, body } = event;
  const recipients = await readRecipients(database.query, [webhookId], named?.map(({ id }) => id) ?? null);
  const filtered = recipients.flatMap((one) => (one.filter === null ? [] : [{ ...one, filter: one.filter }]));
  const { verdicts: given } = await judge.judge(
    filtered.map(({ filter }) => filter),
    filtered.map(({ filter, webhookName }, index) => ({
      filter: index,
      webhook: webhookName,
      headers,
      contentType,
      eventType,
      bytes,
      body: filter.includes('body') ? body : null,
    })),
  );
  const verdictOf = new Map(filtered.map(({ agentId }, index) => [agentId, given[index]]));
  const withVerdict = (verdict: number) => recipients.filter(({ agentId }) => verdictOf.get(agentId) === verdict);
  const [excluded, undecided] = [withVerdict(verdicts.excluded), withVerdict(verdicts.undecided)];
  const unsubscribed = (named ?? []).filter(({ id }) => !recipients.some(({ agentId }) => agentId === id));
  return {
    passing: recipients
      .filter((one) => !excluded.includes(one) && !undecided.includes(one))
      .map(({ agentId }) => agentId),
    undecided: undecided.map(({ agentId }) => agentId),
    excluded,
    unsubscribed,
  };
}

/** Events that a preview counts. */
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
  /** Null: all subscribed agents. */
  agentIds: readonly string[] | null;
  /** True once the client has left. */
  isGone: () => boolean;
}

/**
 * Counts the deliveries that a replay of the matching events would create for each agent, for up to COUNTED_EVENTS_MAX events. Changes
 * nothing. Filters are not evaluated: the replay creates the deliveries, and a filter judges them when the agent claims.
 */
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
