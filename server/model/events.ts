/** Events and their deliveries. */
import { z } from 'zod';
import {
  bodyBytes,
  contentType,
  eventType,
  example,
  idOf,
  receivedAt,
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

/** Limit on the dead letters that are counted. */
export const COUNTED_MAX = 10_000;
/** Limit on the pending and leased deliveries that are counted. */
export const WAITING_COUNTED_MAX = 100_000;

export const deliveryCountsSchema = z.object({
  pending: z.int().describe('deliveries that wait for their agent; filters may drop some when it claims'),
  leased: z.int().describe('deliveries under lease'),
  dead: z.int().describe('dead letters'),
  exact: z
    .boolean()
    .describe(
      `false: more than ${WAITING_COUNTED_MAX} are waiting or more than ${COUNTED_MAX} dead, and the numbers are estimated from a sample of the table`,
    ),
});
