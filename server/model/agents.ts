/** Agents: the table of their fields, and the schemas derived from it. */
import { z } from 'zod';
import {
  between,
  createdAt,
  givenId,
  idOf,
  nameOf,
  nameText,
  prose,
  recordId,
  recordIds,
  textOrNull,
  timeOf,
  timeOrNull,
  updatedAt,
  whole,
} from './fields.ts';
import { FILTER_CHARACTERS_MAX, filterProblem } from './filters/expression.ts';
import { normalOrderBy, ORDER_BY_CHARACTERS_MAX, ORDERS_MAX } from './order-by.ts';
import { createShape, outputShape, type Table, updateShape } from './table.ts';

/** Limit on the dead letters counted for one agent. */
export const DEAD_COUNTED_MAX = 1_000;

/** A temporary agent is removed this long after its last request. */
export const TEMPORARY_AGENT_SECONDS = 3_600;

/** Webhooks listed in the record of an agent, which may have thousands. */
export const FIRST_WEBHOOKS = 3;

const OVERLAP_SECONDS_MAX = 604_800;

/** Upper bound of `max_leased`, because each claim counts the leases of its agent. */
const MAX_LEASED_MAX = 10_000;
/** A filter of a subscription, checked. */
export const filterText = prose(FILTER_CHARACTERS_MAX).superRefine((text, context) => {
  if (text.length > FILTER_CHARACTERS_MAX) return;
  const message = text === '' ? 'Give an expression, or null for no filter.' : filterProblem(text);
  if (message !== null) context.addIssue({ code: 'custom', message });
});

/** The fields of an agent, in the order of answers. */
export const agentFields = {
  id: { input: givenId, onlyNew: true, output: idOf('agent') },
  name: {
    input: nameText.describe('1 to 200 characters, unique among active agents'),
    output: nameOf('agent'),
    command: { flags: '--name <name>', text: 'display name' },
    form: { label: 'Name', hint: 'What the program does, for example deploy bot.' },
  },
  revoked: {
    output: z.boolean().describe('true: the credential is revoked permanently; the deliveries are kept'),
  },
  temporary: {
    input: z
      .boolean()
      .optional()
      .describe(
        `true: for development; the agent is removed with its deliveries when it is revoked, and ${TEMPORARY_AGENT_SECONDS / 3600} hour after its last request`,
      ),
    onlyNew: true,
    output: z
      .boolean()
      .describe('true: the agent and its deliveries are removed when it is revoked or not seen for an hour'),
  },
  webhook_ids: {
    input: recordIds.describe(
      'webhooks whose events the agent receives. After a webhook is removed, no new events are delivered; waiting deliveries stay claimable.',
    ),
    initial: [],
    form: { label: 'Subscribed webhooks' },
  },
  webhooks: { output: z.int().min(0).describe('number of webhooks whose events the agent receives') },
  filters: { output: z.int().min(0).describe('how many of them have a filter') },
  first_webhook_ids: {
    output: z
      .array(z.guid())
      .max(FIRST_WEBHOOKS)
      .describe('the first of them by id; `GET /api/v1/agents/{id}/webhooks` lists all'),
  },
  max_leased: {
    input: between(1, MAX_LEASED_MAX)
      .nullable()
      .optional()
      .describe(
        'limit on the deliveries under lease at a time, over all clients of the agent; at the limit a claim waits as if there were no delivery; null: no limit',
      ),
    output: z.int().nullable().describe('limit on the deliveries under lease at a time; null: no limit'),
    command: { flags: '--max-leased <count>', text: 'limit on its deliveries under lease at a time' },
    form: {
      label: 'Deliveries in progress at a time',
      hint: 'Counted over all clients of the agent. At the limit its claims wait until one is acknowledged. Empty: no limit.',
      hasMax: true,
    },
  },
  paused: {
    input: z
      .boolean()
      .optional()
      .describe('true: its claims wait as if there were no delivery; its leases and their settlement go on'),
    output: z.boolean().describe('true: its claims wait as if there were no delivery'),
  },
  paused_at: { output: timeOrNull('since when it is paused; null: it is not') },
  previous_credential_expires_at: {
    output: timeOrNull('end of validity of the previous credential and its sessions; null without one'),
  },
  created_at: { output: createdAt },
  updated_at: { output: updatedAt.describe('last change of the agent or of its subscriptions, different after each') },
} as const satisfies Table;

/** The parts of the form of an agent. */
export const agentForm = {
  name: ['name'],
  webhooks: ['webhook_ids'],
  limits: ['max_leased'],
} as const satisfies Record<string, readonly (keyof typeof agentFields)[]>;

export const agentInput = {
  create: z.strictObject(createShape(agentFields)),
  /** RFC 7396: absent members are unchanged. */
  update: z.strictObject(updateShape(agentFields)),
  undelivered: z.strictObject({
    to_agent_id: recordId
      .nullable()
      .default(null)
      .describe(
        'active agent that gets the unfinished deliveries, beyond its subscriptions and filters; null: dismiss them',
      ),
  }),
  rotation: z.strictObject({
    overlap_seconds: between(0, OVERLAP_SECONDS_MAX)
      .default(0)
      .describe('how long the previous credential and its sessions stay valid beside the new one'),
  }),
  subscription: z.strictObject({
    filter: filterText
      .nullable()
      .describe(
        'CEL expression over headers, content_type, bytes, body, webhook and event_type: events for which it is false are not delivered; null: all are; absent: unchanged, and none for a new subscription',
      )
      .optional(),
    order_by: z
      .string()
      .overwrite(normalOrderBy)
      .nullable()
      .describe(
        `where an event has its key: a JSON Pointer into the body, for example /data/customer, or header:NAME of a stored header. Of the events with one key, the agent gets the next one only when the one before is finished. It holds for events received from then on; at most ${ORDERS_MAX} distinct ones a webhook. null: not ordered; absent: unchanged, and not ordered for a new subscription`,
      )
      .meta({ maxLength: ORDER_BY_CHARACTERS_MAX })
      .optional(),
  }),
};

export const undeliveredSettled = z.object({
  settled: z.int().describe('number of deliveries that were dismissed or moved'),
  more: z.boolean().describe('true: at most 10,000 are settled at once; repeat the request'),
  action_id: z
    .guid()
    .nullable()
    .describe('id by which the dismissal can be undone for 24 hours; null: none was dismissed'),
});

export const agentSchema = z.object(outputShape(agentFields)).meta({ id: 'Agent' });

/** A subscription, as the agent has it. */
export const agentWebhookSchema = z
  .object({
    webhook_id: idOf('webhook'),
    name: nameOf('webhook'),
    filter: textOrNull('CEL expression: events for which it is false are not delivered; null: all are').meta({
      maxLength: FILTER_CHARACTERS_MAX,
    }),
    order_by: textOrNull('where an event has the key by which its deliveries are ordered; null: they are not').meta({
      maxLength: ORDER_BY_CHARACTERS_MAX,
    }),
  })
  .meta({ id: 'AgentWebhook' });

export type NewAgent = z.output<typeof agentInput.create>;
export type SubscriptionInput = z.output<typeof agentInput.subscription>;
export type AgentPatch = z.output<typeof agentInput.update>;

export const backlogSchema = z.object({
  pending: z.int().describe('deliveries that wait or are under lease; with a filter, before it is applied'),
  leased: z.int().describe('those of them that are under lease'),
  dead: z.int().describe('dead letters'),
  exact: z.boolean().describe('false: more than 100,000, estimated'),
  in_per_second: z.number().describe('events of its webhooks in the last 5 minutes'),
  out_per_second: z
    .number()
    .describe(
      'deliveries that ended in the last 5 minutes, or since the first of them: acknowledged, filtered or dead',
    ),
  caught_up_at: timeOrNull('when none waits any more at these rates; null: never, or none waits'),
  points: z
    .array(z.object({ at: timeOf('start of a quarter of an hour'), pending: z.int().describe('backlog at this time') }))
    .describe('backlog of the last 24 hours, computed back from now by what came and ended; oldest first'),
});
const agentQuarterSchema = z.object({
  at: timeOf('start of the quarter of an hour'),
  acknowledged: whole.describe('deliveries that it acknowledged'),
  failed: whole.describe('attempts that it rejected, or whose lease expired'),
});
export type AgentQuarter = z.output<typeof agentQuarterSchema>;

export const agentActivitySchema = z
  .object({
    agent_id: idOf('agent'),
    last_seen_at: timeOrNull('last request of the agent, to the minute; null: none yet'),
    last_seen_from: textOrNull('client address of that request'),
    previous_credential_used_at: timeOrNull(
      'last request with the previous credential or a session of it, to the minute; null: none since the rotation',
    ),
    waiting_since: timeOrNull(
      'time since which the oldest waiting delivery has been claimable, without those that a filter has yet to judge; null: none is waiting',
    ),
    filters: z
      .array(
        z.object({
          webhook_id: idOf('webhook'),
          failures: z.int().describe('events on which the filter failed since it was set; they were delivered'),
          reason: textOrNull('why it failed last; null: it has not failed'),
          failed_at: timeOrNull('when it failed last'),
          suspended_until: timeOrNull(
            'the filter took too long on several events, and all are delivered until then; null: it is not suspended',
          ),
          problem: textOrNull(
            'why the stored filter is not valid in this version, so that all events are delivered; null: it is',
          ),
        }),
      )
      .describe('subscriptions that have a filter'),
    working: z.boolean().describe('it has a delivery under lease'),
    paused: z.boolean().describe('its claims wait as if there were no delivery'),
    paused_at: timeOrNull('since when it is paused; null: it is not'),
    dead: z.int().describe(`dead letters, counted up to ${DEAD_COUNTED_MAX}`),
    quarters: z
      .array(agentQuarterSchema)
      .optional()
      .describe('with `quarters=true`: each quarter of an hour of the last 24 hours with attempts, oldest first'),
  })
  .meta({ id: 'AgentActivity' });
