/** Query parameters and inputs of the routes of events, and the page of the answer. */
import { z } from 'zod';
import { eventFilters, inOrder, notInOrder } from '../../../model/event-filter.ts';
import { eventSchema } from '../../../model/events.ts';
import { example } from '../../../model/fields.ts';
import { readStoredHeaders } from '../../../model/signatures/stored-headers.ts';
import type { EventRecord } from '../../../store/queries/events/events.ts';
import { flag, pageQuery, searchedPageSchema } from '../paging.ts';

export const eventListQuery = z.strictObject({ ...pageQuery, ...eventFilters }).refine(inOrder, notInOrder);

const AGENTS_NAMED_MAX = 100;

/** The agents to which a replay goes. */
export const replayAgents = z
  .array(z.guid('Give the id of an agent.').toLowerCase())
  .min(1, 'Name an agent, or leave agent_ids out.')
  .max(AGENTS_NAMED_MAX, `Name at most ${AGENTS_NAMED_MAX} agents.`)
  .optional()
  .describe('only to these agents; absent: to every agent that is subscribed to the webhook');

export const beyondSubscriptions = z
  .boolean()
  .optional()
  .describe('true: also what filters exclude and, with agent_ids, webhooks to which these agents are not subscribed');

export const replayManyInput = z
  .strictObject({
    ...eventFilters,
    agent_ids: replayAgents,
    beyond_subscriptions: beyondSubscriptions,
    preview: z
      .boolean()
      .optional()
      .describe('true: replay nothing, and answer how many deliveries each agent would get'),
  })
  .refine(inOrder, notInOrder)
  .meta({ examples: [{ webhook_id: example.webhook_id, from: '2026-11-20T00:00:00Z' }] });

export const eventExportQuery = z
  .strictObject({
    ...eventFilters,
    cursor: pageQuery.cursor.describe('id of the last event of an export that reached its limit'),
    format: z.enum(['ndjson', 'csv']).default('ndjson').describe('csv has no headers and no body'),
    bodies: flag.optional().describe('true: each line of NDJSON has the body, as body or body_base64'),
  })
  .refine(inOrder, notInOrder)
  .refine(({ format, bodies }) => format === 'ndjson' || bodies !== 'true', {
    path: ['bodies'],
    error: 'CSV has no bodies; export NDJSON.',
  });

export const eventPageSchema = searchedPageSchema(eventSchema);

type EventOutput = z.output<typeof eventSchema>;

/** The event as the API returns it, without its body. */
export function describeEvent({ headers, body: _, ...event }: EventRecord & { body?: Buffer }): EventOutput {
  return { ...event, headers: readStoredHeaders(headers.toString('utf8')) };
}
