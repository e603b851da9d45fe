/** Filters of events: the parameters that lists, exports, replays and jobs share, and the database filter made from them. */
import { z } from 'zod';
import { parseNetwork } from './address.ts';
import { deliveryStates } from './events.ts';
import { instant, text } from './fields.ts';
import { EVENT_TYPE_CHARACTERS_MAX } from './signatures/event-type.ts';

const NETWORK_WANTED = 'Give an address or a network, such as 192.0.2.1 or 2001:db8::/32.';
/** An address or network as inet reads it. A zone (fe80::1%eth0) is refused: it is only meaningful on one machine. */
const network = z
  .string()
  .regex(/^[0-9A-Fa-f:./]{2,50}$/, { error: NETWORK_WANTED, abort: true })
  .transform(parseNetwork)
  .refine((parsed) => parsed !== null, NETWORK_WANTED)
  .transform(([address, bits]) => `${address}/${bits}`);

const SOUGHT_CHARACTERS_MAX = 200;

export const eventFilters = {
  webhook_id: z.guid('Give the id of a webhook.').optional().describe('only events of this webhook'),
  from: instant.optional().describe('received at this time or later; UTC if it has no time zone'),
  to: instant.optional().describe('received before this time'),
  delivery_state: z
    .enum([...deliveryStates, 'none'])
    .optional()
    .describe(
      'only events with a delivery in this state (for an agent: a delivery to it); none: only events without a delivery',
    ),
  type: text(1, EVENT_TYPE_CHARACTERS_MAX)
    .optional()
    .describe('only events of this type, case-sensitive; order.* matches every type that begins with order.'),
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

/** Whether the span from `from` to `to` is not reversed. An absent end has no limit. */
export const inOrder = ({ from, to }: { from?: string | undefined; to?: string | undefined }) =>
  from === undefined || to === undefined || from <= to;
export const notInOrder = { path: ['to'], error: 'Give a time that is not before from.' };

export const eventCountQuery = z.strictObject(eventFilters).refine(inOrder, notInOrder);

/** Converts a query to the filter and the span of a database query. @param before id of the last event of the previous page */
export function eventFilterOf(query: z.output<typeof eventCountQuery>, agentId: string | null, before: string | null) {
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
