/** Conditions of statements that search stored events: a filter, and a range of time and id. */
import type { DeliveryState } from '../../../model/events.ts';
import { uuidv7Time } from '../../ids.ts';
import type { Placeholders } from '../../sql.ts';

/** Which events to list; a null field does not filter. */
export interface EventFilter {
  /** Events that have a delivery to this agent. */
  agentId: string | null;
  webhookId: string | null;
  /** Events with a delivery in this state (to the agent, if one is given); `none`: events without any delivery. */
  deliveryState: DeliveryState | 'none' | null;
  /** Exactly this type. */
  type: string | null;
  /** Prefix of the content type, in lower case. */
  contentType: string | null;
  /** An address or a network, in inet syntax. */
  source: string | null;
  /** Bytes that occur in the stored header lines, such as `x-kind: order`. */
  header: Buffer | null;
  /** Bytes that occur anywhere in the body. */
  text: Buffer | null;
}

/** A range of events, ordered by time and id; null: unbounded. */
export interface EventSpan {
  /** ISO 8601, inclusive. */
  from: string | null;
  /** ISO 8601, exclusive. */
  to: string | null;
  /** Event id, exclusive. */
  before: string | null;
  /** Event id, inclusive. */
  downTo: string | null;
}

/** Conditions, or null where a filter does not ask for one. */
type Conditions = readonly (string | null)[];

/** The FROM and WHERE clauses of the events `e` in a range that pass the filter. */
export function matching(given: Placeholders, filter: EventFilter, span: EventSpan): string {
  const conditions = [
    ...spanConditions(given, span, 'e.received_at', 'e.id'),
    ...eventConditions(given, filter),
    filter.agentId === null ? deliveryCondition(given, filter, span) : null,
  ];
  const delivered = filter.agentId === null ? '' : `${deliveredTo(given, filter, span)} join `;
  const using = delivered && ' using (received_at, id, webhook_id)';
  return `from ${delivered}events e${using} ${where(conditions)}`;
}

/** The WHERE clause of the conditions; empty without any. */
export function where(conditions: Conditions): string {
  const given = conditions.filter(Boolean);
  return given.length === 0 ? '' : `where ${given.join(' and ')}`;
}

/** SQL: the condition with the placeholder of a value; null without a value. */
function when(given: Placeholders, value: unknown, type: string, condition: (placeholder: string) => string) {
  return value === null ? null : condition(given.of(value, type));
}

/** The conditions of a range: plain ones on the time, by which Postgres prunes partitions, and (time, id) pairs. */
export function spanConditions(given: Placeholders, span: EventSpan, receivedAt: string, id: string): Conditions {
  const { before, downTo } = span;
  const pair = (of: string) => `(${given.of(uuidv7Time(of), 'timestamptz')}, ${given.of(of, 'uuid')})`;
  return [
    ...timeConditions(given, span, receivedAt),
    before && `(${receivedAt}, ${id}) < ${pair(before)}`,
    downTo && `(${receivedAt}, ${id}) >= ${pair(downTo)}`,
  ];
}

/** The plain conditions of a range on the time. @param receivedAt SQL of the column */
export function timeConditions(
  given: Placeholders,
  { from, to, before, downTo }: EventSpan,
  receivedAt: string,
): Conditions {
  const bound = (operator: string, time: string | null) =>
    when(given, time, 'timestamptz', (at) => `${receivedAt} ${operator} ${at}`);
  return [
    bound('>=', from),
    bound('<', to),
    bound('<=', before && uuidv7Time(before)),
    bound('>=', downTo && uuidv7Time(downTo)),
  ];
}

/** The conditions of a filter on the events `e`, the most expensive last: Postgres evaluates those that it rates equal in this order. */
export function eventConditions(
  given: Placeholders,
  { webhookId, type, source, contentType, header, text }: EventFilter,
): Conditions {
  return [
    when(given, webhookId, 'uuid', (id) => `e.webhook_id = ${id}`),
    type?.endsWith('*')
      ? `starts_with(e.event_type, ${given.of(type.slice(0, -1), 'text')})`
      : when(given, type, 'text', (whole) => `e.event_type = ${whole}`),
    when(given, source, 'inet', (network) => `e.source_ip <<= ${network}`),
    when(given, contentType, 'text', (start) => `starts_with(lower(e.content_type collate "C"), ${start})`),
    when(given, header, 'bytea', (bytes) => `position(${bytes} in e.headers) > 0`),
    when(given, text, 'bytea', (bytes) => `position(${bytes} in e.body) > 0`),
  ];
}

/** The condition that an event `e` has a delivery in a state. Deliveries are restricted to the range, so that Postgres prunes partitions. */
export function deliveryCondition(given: Placeholders, { deliveryState }: EventFilter, span: EventSpan): string | null {
  if (deliveryState === null) return null;
  const isWithout = deliveryState === 'none';
  const conditions = [
    'd.received_at = e.received_at',
    'd.event_id = e.id',
    'd.webhook_id = e.webhook_id',
    ...timeConditions(given, span, 'd.received_at'),
    isWithout ? null : `d.state = ${given.of(deliveryState, 'text')}`,
  ];
  return `${isWithout ? 'not ' : ''}exists (select from deliveries d ${where(conditions)})`;
}

/** Keys of an agent's events, read from its deliveries, so that an agent with few events does not scan all events. */
function deliveredTo(given: Placeholders, { agentId, webhookId, deliveryState }: EventFilter, span: EventSpan): string {
  const conditions = [
    `agent_id = ${given.of(agentId, 'uuid')}`,
    ...spanConditions(given, span, 'received_at', 'event_id'),
    when(given, webhookId, 'uuid', (id) => `webhook_id = ${id}`),
    // `none` does not occur here: every event of an agent has a delivery.
    when(given, deliveryState, 'text', (state) => `state = ${state}`),
  ];
  return `(select distinct received_at, event_id as id, webhook_id from deliveries ${where(conditions)}) d`;
}
