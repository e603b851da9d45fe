/** Tools for agents and users that read stored events. An agent sees only those delivered to it. */
import { z } from 'zod';
import { deliveryStates, type eventSchema } from '../../model/events.ts';
import { idOf, receivedAt, sourceIp } from '../../model/fields.ts';
import { asText, nextCursor, pageInput, queryOf, type Tool, tool, untrustedContent, untrustedTypes } from './tool.ts';
import { BODY_BYTES_SHOWN, typesOf, untrusted } from './untrusted.ts';

const PART_BYTES_MAX = 32_768;

const facts = {
  event_id: idOf('event'),
  webhook_id: idOf('webhook'),
  received_at: receivedAt,
  source_ip: sourceIp,
  body_bytes: z.int().describe('size of the whole body in bytes'),
};

const describe = ({ id, bytes, ...event }: z.output<typeof eventSchema>) =>
  z.object(facts).parse({ event_id: id, body_bytes: bytes, ...event });

const getEvent = tool({
  name: 'get_event',
  title: 'Get an event',
  description: `Returns one stored webhook event with its headers and a part of its body. Call it to read the rest of a body that was cut: pass next_offset as offset, until next_offset is null. Also call it to look at an event from search_events. It changes nothing: it neither leases nor acknowledges the event.`,
  access: 'viewer or agent',
  hints: { readOnly: true },
  input: z.strictObject({
    event_id: z.guid().describe('event_id from wait_for_events or search_events'),
    offset: z
      .int()
      .min(0)
      .default(0)
      .describe('first byte of the body to return; 0, or next_offset of the last answer'),
    max_bytes: z
      .int()
      .min(16)
      .max(PART_BYTES_MAX)
      .default(BODY_BYTES_SHOWN)
      .describe(`most bytes of the body to return, 16 to ${PART_BYTES_MAX}`),
    as_text: asText,
  }),
  output: z.object({ ...facts, untrusted_content: untrustedContent }),
  run: async ({ event_id: id, offset, max_bytes: bytesMax }, operations) => {
    const shown = await operations.run('showEvent', { id });
    if (shown.kind !== 'done') return shown;
    const bytes = await operations.encoded('showEventBody', { id });
    if (bytes.kind !== 'encoded') return bytes;
    const event = shown.body;
    const content = untrusted(event, Buffer.from(bytes.content), { offset, bytesMax });
    const rest =
      content.next_offset === null
        ? 'This is the end of the body.'
        : `The body continues: call get_event with offset ${content.next_offset} for the next part.`;
    return { kind: 'answer', structured: { ...describe(event), untrusted_content: content }, text: rest };
  },
});

const searchEvents = tool({
  name: 'search_events',
  title: 'Search events',
  description:
    'Finds stored webhook events, newest first, by webhook, type, time, sender, delivery state or text in the body. Call it to look for past events; to get new work call wait_for_events instead. Returns facts about each event without headers and body: call get_event for those. If next_cursor is not null there may be more: call again with the same filters and cursor.',
  access: 'viewer or agent',
  hints: { readOnly: true },
  input: z.strictObject({
    webhook_id: z.guid().optional().describe('only events of this webhook'),
    type: z.string().min(1).max(200).optional().describe('only events of exactly this type, such as order.paid'),
    from: z.string().max(40).optional().describe('received at this time or later, such as 2030-01-31T12:00:00Z'),
    to: z.string().max(40).optional().describe('received before this time'),
    delivery_state: z
      .enum([...deliveryStates, 'none'])
      .optional()
      .describe('only events with a delivery in this state; dead: all attempts failed; none: without a delivery'),
    content_type: z.string().max(200).optional().describe('prefix of the content type, such as application/json'),
    source: z.string().max(50).optional().describe('address or network of the sender, such as 192.0.2.0/24'),
    q: z.string().min(1).max(200).optional().describe('text that the body contains, case-sensitive'),
    ...pageInput('events'),
    as_text: asText,
  }),
  output: z.object({
    events: z.array(z.object({ ...facts, untrusted_content: untrustedTypes })).describe('newest first'),
    next_cursor: nextCursor,
    complete: z
      .boolean()
      .describe(
        'false: the search stopped at its time limit; call again with next_cursor, or narrow it by from and to',
      ),
    cells_away: z
      .array(z.looseObject({ number: z.int() }))
      .optional()
      .describe('cells that cannot be reached: their events are missing'),
  }),
  run: async ({ as_text: _, ...given }, operations) => {
    const outcome = await operations.run('listEvents', { query: queryOf(given) });
    if (outcome.kind !== 'done') return outcome;
    const { items, next_cursor, complete, cells_away } = outcome.body;
    const events = items.map((event) => ({ ...describe(event), untrusted_content: typesOf(event) }));
    const text = [
      `${events.length} found.`,
      next_cursor === null ? 'There are no more.' : `For older ones call again with cursor ${next_cursor}.`,
      ...(complete ? [] : ['The search stopped at its time limit.']),
      ...(cells_away ?? []).map(({ number }) => `Events of cell ${number} are missing: it cannot be reached.`),
    ].join(' ');
    return { kind: 'answer', structured: { events, next_cursor, complete, cells_away }, text };
  },
});

export const eventTools: readonly Tool[] = [getEvent, searchEvents];
