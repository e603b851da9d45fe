/** Input and output schemas of the routes for agents. */
import { z } from 'zod';
import type { Refusal } from '../../../deliver/claims/settle.ts';
import { COUNTED_MAX } from '../../../model/events.ts';
import { contentType, eventType, example, idOf, nameOf, receivedAt, timeOf } from '../../../model/fields.ts';
import { AGENT_SESSION_SECONDS } from '../../auth/agent.ts';

const agentExample = { id: example.agent_id, name: 'invoices' };
const exampleReceipt = `${example.delivery_id}.17`;

/** The credential is sent as a bearer token or in the body. */
export const sessionInput = z
  .strictObject({
    credential: z
      .string()
      .max(200)
      .optional()
      .describe('credential of the agent (wa_…), unless it is sent as the bearer token'),
  })
  .meta({ examples: [{ credential: 'wa_…' }] });

/** Limit on a stored reason, in characters. The column of the database has no limit. */
const REASON_CHARACTERS_MAX = 500;

/**
 * Returns the reason as it is stored: cut between characters, not inside a surrogate pair. NUL and lone surrogates become U+FFFD, because
 * Postgres cannot store them.
 */
function storable(reason: string): string {
  const wellFormed = Buffer.from(reason.slice(0, 2 * REASON_CHARACTERS_MAX))
    .toString()
    .replaceAll('\0', '\ufffd');
  return Array.from(wellFormed).slice(0, REASON_CHARACTERS_MAX).join('');
}

const receipt = z.string().max(100).describe('receipt of a claimed delivery');
const receipts = z.array(receipt).min(1).max(1000).describe('receipts of claimed deliveries, 1 to 1000');

const refusalFields = {
  delay_seconds: z
    .number()
    .min(0)
    .max(86_400)
    .optional()
    .describe('time until the deliveries can be claimed again; absent: increases with each attempt'),
  reason: z
    .string()
    .transform(storable)
    .optional()
    .describe(`why the agent refused, stored with the delivery; cut to ${REASON_CHARACTERS_MAX} characters`),
  release: z
    .boolean()
    .optional()
    .describe(
      'true: the work was not begun. The attempt does not count, and the deliveries can be claimed again at once; without delay_seconds and reason',
    ),
};

function refine<Schema extends z.ZodType<Refusal>>(schema: Schema): Schema {
  return schema.refine(({ release, delay_seconds, reason }) => !release || (delay_seconds ?? reason) === undefined, {
    path: ['release'],
    message: 'a released delivery has neither delay_seconds nor reason',
  });
}

export const ackInput = z.strictObject({ receipts }).meta({ examples: [{ receipts: [exampleReceipt] }] });
export const nackInput = refine(z.strictObject({ receipts, ...refusalFields })).meta({
  examples: [{ receipts: [exampleReceipt], delay_seconds: 60, reason: 'the invoice service answers 503' }],
});
export const claimInput = z
  .strictObject({
    max: z
      .int()
      .min(1)
      .max(1000)
      .default(1)
      .describe('maximum number of deliveries; the bodies of one response are limited to 16 MiB in total'),
    lease_seconds: z
      .int()
      .min(5)
      .max(3600)
      .default(30)
      .describe('how long each delivery stays leased without ack, nack or extend'),
    wait_seconds: z
      .int()
      .min(0)
      .max(30)
      .default(0)
      .describe(
        'how long the request waits when no delivery can be claimed. With ack or nack, settled comes after this wait: use 0 to have it at once',
      ),
    webhook_ids: z.array(z.guid()).max(1000).optional().describe('only deliveries of these webhooks; absent: of all'),
    ack: receipts
      .optional()
      .describe('receipts to acknowledge before the claim looks or waits, 1 to 1000; repeating the request is safe'),
    nack: z
      .array(refine(z.strictObject({ receipt, ...refusalFields })))
      .min(1)
      .max(1000)
      .optional()
      .describe('deliveries to refuse before the claim looks or waits, 1 to 1000'),
  })
  .meta({ examples: [{ max: 10, lease_seconds: 60, wait_seconds: 20, ack: [exampleReceipt] }] });

export const extendInput = z
  .strictObject({
    receipts,
    lease_seconds: z.int().min(5).max(3600).describe('length of the lease from now on'),
  })
  .meta({ examples: [{ receipts: [exampleReceipt], lease_seconds: 120 }] });

const agent = z.object({ id: idOf('agent'), name: nameOf('agent') });

/** Webhooks in one answer of `me`. */
export const AGENT_WEBHOOKS_MAX = 1_000;

export const meSchema = agent
  .extend({
    pending: z.int().describe(`deliveries in state pending, counted up to ${COUNTED_MAX}`),
    oldest_pending_seconds: z
      .int()
      .nullable()
      .describe('how long the oldest claimable delivery has waited; null: no delivery is waiting'),
    webhooks: z
      .array(
        z.object({
          id: idOf('webhook'),
          name: nameOf('webhook'),
          verified: z.boolean().describe('true: it refuses requests whose signature does not verify'),
        }),
      )
      .describe(`webhooks that it is subscribed to, oldest first, at most ${AGENT_WEBHOOKS_MAX}`),
    paused: z
      .boolean()
      .describe('true: an operator paused the agent, so that claims wait as if there were no delivery'),
  })
  .meta({
    examples: [
      {
        ...agentExample,
        pending: 3,
        oldest_pending_seconds: 12,
        webhooks: [{ id: example.webhook_id, name: 'orders', verified: true }],
        paused: false,
      },
    ],
  });

export const sessionSchema = z
  .object({
    access_token: z.string().describe('the bearer token of all other requests of the agent'),
    token_type: z.literal('Bearer').describe('type of the token (RFC 6750)'),
    expires_in: z.int().describe('seconds for which access_token is valid'),
    agent: agent.describe('the agent that the credential belongs to'),
  })
  .meta({
    examples: [
      {
        access_token: 'ws_…',
        token_type: 'Bearer',
        expires_in: AGENT_SESSION_SECONDS,
        agent: agentExample,
      },
    ],
  });

export const settledSchema = z
  .object({
    done: z.array(z.string()).describe('receipts that were settled'),
    gone: z.array(z.string()).describe('receipts whose leases were lost'),
    away: z
      .array(z.string())
      .optional()
      .describe('receipts of a cell that does not answer: send them again a second later; absent: none'),
  })
  .meta({ examples: [{ done: [exampleReceipt], gone: [] }] });

export const claimedSchema = z
  .object({
    deliveries: z
      .array(
        z.object({
          id: idOf('delivery'),
          receipt: z.string().describe('identifies this delivery and this attempt'),
          attempt: z.int().describe('1 for the first claim of this delivery'),
          leased_until: timeOf('end of the lease; after it the delivery can be claimed again'),
          traceparent: z
            .string()
            .optional()
            .describe('W3C trace context of this delivery, for the spans of the agent; absent: Weir does not trace'),
          event: z
            .object({
              id: idOf('event'),
              webhook_id: idOf('webhook'),
              webhook_name: nameOf('webhook'),
              received_at: receivedAt,
              event_type: eventType,
              content_type: contentType,
              headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
              body: z.string().optional().describe('the body, when its bytes are UTF-8 without NUL'),
              body_base64: z.string().optional().describe('any other body, in base64'),
            })
            .describe('the stored request'),
        }),
      )
      .describe('the claimed deliveries; empty: no delivery was waiting'),
    settled: settledSchema.optional().describe('what ack and nack of the request settled; absent without them'),
  })
  .meta({
    examples: [
      {
        deliveries: [
          {
            id: example.delivery_id,
            receipt: exampleReceipt,
            attempt: 1,
            leased_until: example.leased_until,
            event: {
              id: example.event_id,
              webhook_id: example.webhook_id,
              webhook_name: 'shop',
              received_at: example.received_at,
              event_type: 'order.created',
              content_type: 'application/json',
              headers: { 'content-type': 'application/json' },
              body: '{"type":"order.created","order":{"id":1042}}',
            },
          },
        ],
      },
    ],
  });
