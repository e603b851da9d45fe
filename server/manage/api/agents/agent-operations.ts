/** /api/v1/agents. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import {
  agentActivitySchema,
  agentInput,
  agentSchema,
  agentWebhookSchema,
  undeliveredSettled,
} from '../../../model/agents.ts';
import { recordId, text } from '../../../model/fields.ts';
import { filterProblem } from '../../../model/filters/expression.ts';
import { quartersSince } from '../../../model/history.ts';
import { currentPassword } from '../../../model/users.ts';
import type { Actor } from '../../../store/audit/record.ts';
import { ACTIVE_AGENTS_MAX, readAgentActivity } from '../../../store/queries/agents/activity.ts';
import { findAgent, listAgents } from '../../../store/queries/agents/agents.ts';
import { readFilters, type StoredFilter } from '../../../store/queries/agents/filters.ts';
import { readAgentQuarters } from '../../../store/queries/agents/history.ts';
import { listAgentWebhooks } from '../../../store/queries/agents/subscriptions.ts';
import type { ChangeParts } from '../change.ts';
import { done, found, operation, refusedId, replyTo } from '../operation.ts';
import { cursorProblem, flag, flagValue, idList, listSchema, pageOf, pageSchema, recordPageQuery } from '../paging.ts';
import { Agents, settleUndelivered } from './agent-changes.ts';
import { showBacklog } from './backlog.ts';

const id = { schema: recordId, problem: 'agent_unknown' } as const;
const withCredential = agentSchema.extend({ credential: z.string().describe('shown only in this response') });
const listQuery = z.strictObject({
  ...recordPageQuery,
  revoked: flag.optional().describe('true: only revoked agents; false: only active agents'),
  q: text(1, 200).optional().describe('part of the name, case-insensitive'),
});

const webhooksQuery = z.strictObject({
  ...recordPageQuery,
  webhook_id: recordId.optional().describe('only the subscription to this webhook'),
  filtered: flag.optional().describe('true: only those with a filter; false: only those without'),
});
const NO_AGENT = 'No agent has this id.';

const activityQuery = z.strictObject({
  agent_ids: idList(ACTIVE_AGENTS_MAX, 'active agents').optional(),
  quarters: flag.optional().describe('true: adds the quarters of an hour'),
});

/** Limit on the filters of one answer of `listAgentActivity`. */
const FILTERS_SHOWN_MAX = 2_000;

function filterActivity(stored: StoredFilter) {
  const {
    webhookId: webhook_id,
    filter,
    failures,
    reason,
    failedAt: failed_at,
    suspendedUntil: suspended_until,
  } = stored;
  return { webhook_id, failures, reason, failed_at, suspended_until, problem: filterProblem(filter) };
}

/** The operations of users on agents; those that an agent calls are in own-agent-operations.ts. */
export function agentOperations(parts: ChangeParts) {
  const { database } = parts;
  const by = (actor: Actor) => new Agents(parts, actor);

  return {
    listAgents: operation({
      query: listQuery,
      answers: { 200: pageSchema(agentSchema) },
      handle: async ({ query: { revoked, q, cursor, limit } }) => {
        const filter = { revoked: flagValue(revoked), contains: q ?? null };
        const rows = await listAgents(database, filter, cursor ?? null, limit + 1);
        const wrong = await cursorProblem(database, 'agents', cursor, rows);
        if (wrong !== null) return wrong;
        return done(200, pageOf(rows, limit));
      },
    }),

    /** A route of its own: activity within the agents would change their entity tags all the time. */
    listAgentActivity: operation({
      query: activityQuery,
      answers: { 200: listSchema(agentActivitySchema) },
      handle: async ({ query }) => {
        const reading = readAgentActivity(database, query.agent_ids ?? null);
        const ids = query.agent_ids ?? (await reading).map((item) => item.agent_id);
        const [items, filters, quarters] = await Promise.all([
          reading,
          readFilters(database, ids, FILTERS_SHOWN_MAX),
          query.quarters === 'true' ? readAgentQuarters(database, quartersSince(Date.now()), ids) : null,
        ]);
        const byAgent = new Map(ids.map((id): [string, StoredFilter[]] => [id, []]));
        for (const filter of filters) byAgent.get(filter.agentId)!.push(filter);
        return done(200, {
          items: items.map((item) => ({
            ...item,
            filters: byAgent.get(item.agent_id)!.map(filterActivity),
            ...(quarters && { quarters: quarters.get(item.agent_id)! }),
          })),
        });
      },
    }),

    createAgent: operation({
      stepUp: true,
      idempotent: true,
      input: agentInput.create.extend({ current_password: currentPassword }),
      problems: ['name_taken', 'id_taken'],
      answers: { 201: withCredential },
      handle: async ({ who, actor, input }) =>
        refusedId(who, input) ??
        replyTo(await by(actor).add(input), (made) => done(201, made, { location: `/api/v1/agents/${made.id}` })),
    }),

    showAgent: operation({
      id,
      answers: { 200: agentSchema },
      handle: async ({ id }) => found(await findAgent(database.query, id), 'agent_unknown', NO_AGENT),
    }),

    showBacklog: showBacklog(database),

    listAgentWebhooks: operation({
      id,
      query: webhooksQuery,
      answers: { 200: pageSchema(agentWebhookSchema) },
      handle: async ({ id, query: { webhook_id, filtered, cursor, limit } }) => {
        const which = { webhookId: webhook_id ?? null, filtered: flagValue(filtered) };
        const rows = await listAgentWebhooks(database, id, which, cursor ?? null, limit + 1);
        if (rows.length === 0 && (await findAgent(database.query, id)) === undefined)
          return problem('agent_unknown', NO_AGENT);
        return done(
          200,
          pageOf(rows, limit, ({ id, ...row }) => ({ webhook_id: id, ...row })),
        );
      },
    }),

    updateAgent: operation({
      id,
      input: agentInput.update,
      answers: { 200: agentSchema },
      problems: ['name_taken'],
      representation: agentSchema,
      handle: async ({ actor, id, input, matches }) =>
        replyTo(await by(actor).update(id, input, matches), (agent) => done(200, agent)),
    }),

    setSubscription: operation({
      id,
      innerId: { schema: recordId, problem: 'webhook_unknown' },
      input: agentInput.subscription,
      answers: { 200: agentSchema },
      problems: ['order_by_invalid'],
      representation: agentSchema,
      handle: async ({ actor, id, innerId, input, matches }) =>
        replyTo(await by(actor).subscribe(id, innerId, input, matches), (agent) => done(200, agent)),
    }),

    endSubscription: operation({
      id,
      innerId: { schema: recordId, problem: 'webhook_unknown' },
      answers: { 200: agentSchema },
      representation: agentSchema,
      handle: async ({ actor, id, innerId, matches }) =>
        replyTo(await by(actor).unsubscribe(id, innerId, matches), (agent) => done(200, agent)),
    }),

    rotateAgent: operation({
      stepUp: true,
      idempotent: true,
      id,
      input: agentInput.rotation.extend({ current_password: currentPassword }),
      answers: { 200: withCredential },
      representation: agentSchema,
      handle: async ({ actor, id, input, matches }) =>
        replyTo(await by(actor).rotate(id, input.overlap_seconds, matches), (agent) => done(200, agent)),
    }),

    settleUndelivered: operation({
      id,
      input: agentInput.undelivered,
      answers: { 200: undeliveredSettled },
      problems: ['agent_active'],
      handle: async ({ actor, id, input }) =>
        replyTo(await settleUndelivered(database, actor, id, input.to_agent_id), (settled) => done(200, settled)),
    }),

    revokeAgent: operation({
      id,
      answers: { 204: null },
      representation: agentSchema,
      handle: async ({ actor, id, matches }) => replyTo(await by(actor).revoke(id, matches), () => done(204)),
    }),
  };
}
