/** Query parameters of GET /api/v1/events, the database filter made from them, and the page of the answer. */
import { z } from 'zod';
import type { EventRecord } from '../../db/queries/events.ts';
import { parseNetwork } from '../../net/address.ts';
import { deliveryStates, eventSchema } from '../../resources/events.ts';
import { example, instant, text } from '../../resources/fields.ts';
import { EVENT_TYPE_CHARACTERS_MAX } from '../../signatures/event-type.ts';
import { readStoredHeaders } from '../../signatures/stored-headers.ts';
import { flag, pageQuery, pageSchema } from '../paging.ts';
import type { Search } from './search.ts';

/** An address or network as inet reads it. A zone (fe80::1%eth0) is refused: it is only meaningful on one machine. */
const network = z
  .string()
  .transform((text) => (/^[0-9A-Fa-f:./]{2,50}$/.test(text) ? parseNetwork(text) : null))
  .refine((parsed) => parsed !== null, 'Give an address or a network, such as 192.0.2.1 or 2001:db8::/32.')
  .transform(([address, bits]) => `${address}/${bits}`);

const SOUGHT_CHARACTERS_MAX = 200;

const filterQuery = {
  webhook_id: z.guid('Give the id of a webhook.').optional().describe('only events of this webhook'),
  from: instant.optional().describe('received at this time or later; UTC if it has no time zone'),
  to: instant.optional().describe('received before this time'),
  delivery_state: z
    .enum([...deliveryStates, 'none'])
    .optional()
    .describe(
      'only events with a delivery in this state (for an agent: a delivery to it); none: only events without a delivery',
    ),
  type: text(1, EVENT_TYPE_CHARACTERS_MAX).optional().describe('only events of this type, case-sensitive'),
  content_type: z
    .string()
    .regex(/^[ -~]{1,200}$/, 'Give at most 200 printable ASCII characters.')
    .toLowerCase()
    .optional()
    .describe('prefix of the content type, case-insensitive: application/json matches application/json; charset=utf-8'),
  source: network.optional().describe('address or network of the sender, e.g. 192.0.2.0/24'),
  header: text(1, SOUGHT_CHARACTERS_MAX)
    .overwrite((line) => line.replace(/^[^\s:]+:/, (name) => name.toLowerCase()))
    .optional()
    .describe('text in the stored header lines: NAME: VALUE, or a part of it; values are case-sensitive'),
  q: z
    .string()
    .min(1)
    .max(SOUGHT_CHARACTERS_MAX)
    .optional()
    .describe('text that the body contains: these UTF-8 bytes, case-sensitive'),
};

const inOrder = ({ from, to }: { from?: string | undefined; to?: string | undefined }) =>
  from === undefined || to === undefined || from <= to;
const notInOrder = { path: ['to'], error: 'Give a time that is not before from.' };

export const eventListQuery = z.strictObject({ ...pageQuery, ...filterQuery }).refine(inOrder, notInOrder);

export const eventCountQuery = z.strictObject(filterQuery).refine(inOrder, notInOrder);

const AGENTS_NAMED_MAX = 100;

/** To which agents a replay goes. */
export const replayAgents = z
  .array(z.guid('Give the id of an agent.').toLowerCase())
  .min(1, 'Name an agent, or leave agent_ids out.')
  .max(AGENTS_NAMED_MAX, `Name at most ${AGENTS_NAMED_MAX} agents.`)
  .optional()
  .describe('only to these agents; absent: to every agent that is subscribed to the webhook');

export const replayManyInput = z
  .strictObject({ ...filterQuery, agent_ids: replayAgents })
  .refine(inOrder, notInOrder)
  .meta({ examples: [{ webhook_id: example.webhook_id, from: '2026-11-20T00:00:00Z' }] });

export const eventExportQuery = z
  .strictObject({
    ...filterQuery,
    cursor: pageQuery.cursor.describe('id of the last event of an export that reached its limit'),
    format: z.enum(['ndjson', 'csv']).default('ndjson').describe('csv has no headers and no body'),
    bodies: flag.optional().describe('true: each line of NDJSON has the body, as body or body_base64'),
  })
  .refine(inOrder, notInOrder)
  .refine(({ format, bodies }) => format === 'ndjson' || bodies !== 'true', {
    path: ['bodies'],
    error: 'CSV has no bodies; export NDJSON.',
  });

/** @param before id of the last event of the previous page */
export function eventFilterOf(
  query: z.output<typeof eventCountQuery>,
  agentId: string | null,
  before: string | null,
): Pick<Search, 'filter' | 'span'> {
  return {
    filter: {
      agentId,
      webhookId: query.webhook_id ?? null,
      deliveryState: query.delivery_state ?? null,
      type: query.type ?? null,
      contentType: query.content_type ?? null,
      source: query.source ?? null,
      header: query.header === undefined ? null : Buffer.from(query.header),
      text: query.q === undefined ? null : Buffer.from(query.q),
    },
    span: { from: query.from ?? null, to: query.to ?? null, before },
  };
}

export const eventPageSchema = pageSchema(eventSchema).extend({
  complete: z
    .boolean()
    .describe('false: the search reached its time limit before the page was full; next_cursor continues from there'),
  searched_to: z.iso.datetime().nullable().describe('time down to which an incomplete search looked'),
});

type EventOutput = z.output<typeof eventSchema>;

/** The event as the API returns it, without its body. */
export function describeEvent({ headers, body: _, ...event }: EventRecord & { body?: Buffer }): EventOutput {
  return { ...event, headers: readStoredHeaders(headers.toString('utf8')) };
}
