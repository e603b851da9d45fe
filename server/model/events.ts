/** Events, their deliveries, the history of a delivery (attempts, and actions of users), and dead letters. */
import { z } from 'zod';
import {
  bodyBytes,
  contentType,
  eventType,
  example,
  idOf,
  receivedAt,
  recordId,
  sourceIp,
  textOrNull,
  timeOf,
  timeOrNull,
} from './fields.ts';

export const eventSchema = z
  .object({
    id: idOf('event'),
    webhook_id: idOf('webhook'),
    received_at: receivedAt,
    source_ip: sourceIp,
    event_type: eventType,
    content_type: contentType,
    bytes: bodyBytes,
    headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
  })
  .meta({
    id: 'Event',
    examples: [
      {
        id: example.event_id,
        webhook_id: example.webhook_id,
        received_at: example.received_at,
        source_ip: '192.0.2.10',
        event_type: 'order.created',
        content_type: 'application/json',
        bytes: 44,
        headers: { 'content-type': 'application/json' },
      },
    ],
  });

export const deliveryStates = ['pending', 'leased', 'done', 'dead', 'dismissed', 'filtered'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

export const deliverySchema = z
  .object({
    id: idOf('delivery'),
    event_id: idOf('event'),
    event_type: eventType,
    webhook_id: idOf('webhook'),
    agent_id: idOf('agent'),
    state: z
      .enum(deliveryStates)
      .describe(
        'dead: all attempts have failed; dismissed: dead, and a user no longer needs it; filtered: the filter of the subscription excludes the event',
      ),
    attempts: z.number().describe('claims so far, or since the last replay'),
    received_at: timeOf('when the event was received'),
    available_at: timeOf('pending: time from which it can be claimed, unless it is held; leased: end of the lease'),
    finished_at: timeOrNull('when it became done, dead or filtered; null: it is pending or leased'),
    order_key: textOrNull('hash of the key by which the subscription orders it, in hex; null: it is not ordered'),
    held: z.boolean().describe('pending, but another delivery with its key must be finished first'),
    reason: textOrNull('reason that the agent gave with its last nack, or that its last lease expired'),
  })
  .meta({
    id: 'Delivery',
    examples: [
      {
        id: example.delivery_id,
        event_id: example.event_id,
        event_type: 'order.created',
        webhook_id: example.webhook_id,
        agent_id: example.agent_id,
        state: 'leased',
        attempts: 1,
        received_at: example.received_at,
        available_at: example.leased_until,
        finished_at: null,
        order_key: null,
        held: false,
        reason: null,
      },
    ],
  });

export const eventTypeSchema = z
  .object({
    event_type: eventType,
    events: z.int().describe('number of events of this type'),
    newest_id: z.guid().describe('id of the newest of them'),
  })
  .meta({ id: 'EventType' });

export const eventDeliveriesSchema = z.object({
  event_id: idOf('event'),
  pending: z.int().describe('deliveries that wait for their agent; filters may drop some when it claims'),
  leased: z.int().describe('deliveries under lease'),
  done: z.int().describe('acknowledged deliveries'),
  dead: z.int().describe('dead letters'),
  dismissed: z.int().describe('dead letters that a user dismissed'),
  filtered: z.int().describe('deliveries that the filter of a subscription excluded'),
});

/** Limit on the dead letters that are grouped, and on the pending deliveries that are counted for an agent. */
export const COUNTED_MAX = 10_000;
/** Limit on the deliveries that wait, and on the dead letters, that are counted. */
export const DELIVERIES_COUNTED_MAX = 100_000;

export const deliveryCountsSchema = z.object({
  pending: z.int().describe('deliveries that wait for their agent; filters may drop some when it claims'),
  leased: z.int().describe('deliveries under lease'),
  dead: z.int().describe('dead letters'),
  exact: z
    .boolean()
    .describe(
      `false: more than ${DELIVERIES_COUNTED_MAX} are waiting, or more than ${DELIVERIES_COUNTED_MAX} dead, and the numbers are estimated from a sample of the table`,
    ),
});

const attemptOutcomes = [
  'acknowledged',
  'rejected',
  'expired',
  'revoked',
  'released',
  'replayed',
  'dismissed',
  'restored',
  'filtered',
] as const;

export const attemptSchema = z
  .object({
    outcome: z
      .enum(attemptOutcomes)
      .nullable()
      .describe(
        'rejected: nack; expired: the lease; revoked: the agent; released, which counts as no attempt: the agent disconnected before it got the delivery, or returned it before it began the work. replayed, dismissed and restored (an undo) are actions of a user; filtered: the filter of the subscription excluded the event. null: the lease is active',
      ),
    lease: z
      .int()
      .nullable()
      .describe('number of the lease, as in the receipt; null: an action of a user, or filtered'),
    leased_at: timeOrNull('when the agent claimed the delivery; null: an action of a user, or filtered'),
    lease_seconds: z.number().nullable().describe('length of the lease with its extensions'),
    agent_address: textOrNull('address from which the agent claimed the delivery'),
    at: timeOrNull('when the attempt ended, or the user acted; null: the lease is active'),
    duration_ms: z.number().nullable().describe('from the claim to the end of the attempt'),
    reason: textOrNull('reason that the agent gave'),
    retry_seconds: z.number().nullable().describe('delay after which the delivery could be claimed again'),
  })
  .meta({
    id: 'Attempt',
    examples: [
      {
        outcome: 'rejected',
        lease: 1,
        leased_at: '2026-11-21T20:04:48.298Z',
        lease_seconds: 60,
        agent_address: '192.0.2.20',
        at: '2026-11-21T20:04:51.302Z',
        duration_ms: 3004,
        reason: 'timeout calling CRM',
        retry_seconds: 5,
      },
    ],
  });

export type Attempt = z.output<typeof attemptSchema>;

export const deadGroupSchema = z
  .object({
    reason: textOrNull('reason of the last attempt; null: the agent gave none'),
    deliveries: z.int().describe('number of dead letters'),
    agents: z.int().describe('number of agents'),
    agent_ids: z.array(z.guid()).describe('ids of up to 5 of these agents'),
    first_at: timeOf('when the first of them became dead'),
    last_at: timeOf('when the last of them became dead'),
  })
  .meta({ id: 'DeadLetterGroup' });

export const deadGroupsSchema = z.object({
  items: z.array(deadGroupSchema).describe('the most frequent reason first'),
  complete: z
    .boolean()
    .describe(`false: only the newest ${COUNTED_MAX} dead letters are counted, or rare reasons are omitted`),
});

/** A reason as it is stored: at most 500 characters, which are up to 1,000 UTF-16 units. */
export const reasonText = z
  .string()
  .max(1_000)
  .refine((value) => !/\0|\p{Cs}/u.test(value), 'NUL and unpaired surrogates are not in any reason.');
const actionId = z
  .guid()
  .nullable()
  .describe('id by which the action can be undone for 24 hours; null: nothing was changed');

/** Whether deliveries in this state are replayed only for one agent at a time: the agent acknowledged them, or its filter excluded them. */
export const needsOneAgent = (state: string): boolean => state === 'done' || state === 'filtered';

export const undoInput = z.strictObject({ action_id: recordId.describe('from the response of the action') });

const more = {
  more: z.boolean().describe('true: more deliveries match; repeat the request with finished_before'),
  finished_before: timeOf(
    'time before which they were finished; without it, a repeated request replays what was acknowledged since',
  ),
};

export const replayedSchema = z.object({
  replayed: z.int().describe('number of deliveries that are pending again'),
  ...more,
  action_id: actionId,
});

export const dismissedSchema = z.object({
  dismissed: z.int().describe('number of deliveries that are dismissed'),
  ...more,
  action_id: actionId,
});

export const undoneSchema = z.object({
  restored: z.int().describe('number of deliveries restored to what they were before the action'),
  others: z.int().describe('number of deliveries that were claimed or changed since, and stay as they are'),
});
