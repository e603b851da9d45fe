/** Tools of agents: wait for events, and settle their deliveries. They run the operations of /api/v1/agent/deliveries. */
import { z } from 'zod';
import { idOf, nameOf, receivedAt, timeOf } from '../../model/fields.ts';
import { counted } from '../../model/words.ts';
import { parseReceipt } from '../../store/queries/claims/receipts.ts';
import type { ackInput, claimedSchema, settledSchema } from '../api/agent/schema.ts';
import { asText, type Tool, type ToolAnswer, type ToolOperations, tool, untrustedContent } from './tool.ts';
import { BODY_BYTES_SHOWN, untrusted } from './untrusted.ts';

/** Deliveries of one call. With cut bodies the answer stays below about 60,000 tokens. */
const DELIVERIES_MAX = 10;
const RECEIPTS_MAX = 100;
const WAIT_SECONDS = 20;
/** Longer than the API's default: a model takes minutes for what a program does in seconds. */
const LEASE_SECONDS = 300;

const NO_RECEIPT =
  'This is not a receipt: give the receipt of a delivery from wait_for_events, not its delivery_id or event_id.';
const receipts = z
  .array(
    z
      .string()
      .max(100)
      .refine((text) => parseReceipt(text) !== null, NO_RECEIPT),
  )
  .min(1)
  .max(RECEIPTS_MAX)
  .describe(`receipts from wait_for_events, 1 to ${RECEIPTS_MAX}`);
const leaseSeconds = z.int().min(5).max(3600).default(LEASE_SECONDS);

const delivery = z.object({
  receipt: z.string().describe('names this delivery and this attempt: pass it to acknowledge, reject or extend_lease'),
  delivery_id: idOf('delivery'),
  attempt: z.int().describe('1 for the first time; higher: an earlier attempt was rejected or its lease expired'),
  leased_until: timeOf('acknowledge, reject or extend before this time'),
  event_id: idOf('event').describe('the same id again means the same event: do not do its work twice'),
  webhook_id: idOf('webhook'),
  webhook_name: nameOf('webhook'),
  received_at: receivedAt,
  body_bytes: z.int().describe('size of the whole body in bytes'),
  untrusted_content: untrustedContent,
});

type Delivery = z.output<typeof delivery>;
type Claimed = z.output<typeof claimedSchema>['deliveries'][number];

const settled = z.object({
  done: z.array(z.string()).describe('receipts that were settled'),
  gone: z.array(z.string()).describe('receipts of lost leases: their deliveries come again with other receipts'),
  away: z.array(z.string()).optional().describe('receipts to send again later: a database does not answer'),
});

const nextWait = 'Call wait_for_events for the next events.';

const waitForEvents = tool({
  name: 'wait_for_events',
  title: 'Wait for events',
  description: `Waits for the next webhook events that are delivered to you, and leases them to you. It returns as soon as there is an event, at the latest after wait_seconds, then with an empty list: call it again to continue to wait. Each delivery comes with a receipt, facts from Weir, and untrusted_content from the sender. Bodies longer than ${BODY_BYTES_SHOWN} bytes are cut: get_event returns the rest. Afterwards do the work, then call acknowledge with the receipt, or reject if the work failed; before leased_until, else the event is delivered again.`,
  access: 'agent',
  hints: { readOnly: false },
  input: z.strictObject({
    max: z
      .int()
      .min(1)
      .max(DELIVERIES_MAX)
      .default(1)
      .describe(`most events to lease, 1 to ${DELIVERIES_MAX}; lease only what you can finish in time`),
    wait_seconds: z
      .int()
      .min(0)
      .max(30)
      .default(WAIT_SECONDS)
      .describe('how long to wait if there is no event, 0 to 30 seconds'),
    lease_seconds: leaseSeconds.describe('how long the events are yours, 5 to 3600 seconds; extend_lease prolongs it'),
    webhook_ids: z
      .array(z.guid())
      .min(1)
      .max(100)
      .optional()
      .describe('only events of these webhooks, by the webhook_id of earlier events; absent: of all'),
    as_text: asText,
  }),
  output: z.object({
    deliveries: z.array(delivery).describe('empty: there was no event in wait_seconds, or you are paused'),
    paused: z.boolean().describe('true: an operator paused you, and events wait until you are resumed'),
  }),
  waitSeconds: ({ wait_seconds }) => wait_seconds,
  run: async ({ as_text: _, ...input }, operations) => {
    const outcome = await operations.encoded('claim', { input });
    // The call was cancelled, by its client or by another one that used the same id. An empty list makes a client that waits call again.
    if (outcome.kind === 'gone') return waited([], false);
    if (outcome.kind !== 'encoded') return outcome;
    const { deliveries } = JSON.parse(String(outcome.content)) as z.output<typeof claimedSchema>;
    const me = deliveries.length > 0 ? null : await operations.run('agentMe', {});
    return waited(deliveries, me?.kind === 'done' && me.body.paused);
  },
  recordOf: ({ deliveries }) => ({
    action: 'delivery.claim',
    deliveryIds: deliveries.map(({ delivery_id }) => delivery_id),
  }),
});

function waited(claimed: readonly Claimed[], paused: boolean): ToolAnswer<{ deliveries: Delivery[]; paused: boolean }> {
  const deliveries = claimed.map(describeDelivery);
  const text =
    deliveries.length === 0
      ? `${paused ? 'An operator paused you: events wait until you are resumed.' : 'There is no event yet.'} Call wait_for_events again to continue to wait.`
      : `${counted(deliveries.length, 'event')}. Do the work for each, then acknowledge or reject its receipt before leased_until.`;
  return { kind: 'answer', structured: { deliveries, paused }, text };
}

function describeDelivery({ id, receipt, attempt, leased_until, event }: Claimed): Delivery {
  const body =
    event.body === undefined ? Buffer.from(event.body_base64 ?? '', 'base64') : Buffer.from(event.body, 'utf8');
  return {
    receipt,
    delivery_id: id,
    attempt,
    leased_until,
    event_id: event.id,
    webhook_id: event.webhook_id,
    webhook_name: event.webhook_name,
    received_at: event.received_at,
    body_bytes: body.length,
    untrusted_content: untrusted(event, body, { offset: 0, bytesMax: BODY_BYTES_SHOWN }),
  };
}

/** Runs the operation and describes what it settled. @param verb first word of the summary, in the past tense */
async function settle(
  operations: ToolOperations,
  operation: 'ack' | 'nack' | 'extend',
  input: z.output<typeof ackInput>,
  verb: string,
): Promise<ToolAnswer<z.output<typeof settledSchema>>> {
  const outcome = await operations.run(operation, { input });
  if (outcome.kind !== 'done') return outcome;
  const { done, gone, away = [] } = outcome.body;
  const lost =
    gone.length === 0
      ? ''
      : ` The leases of ${counted(gone.length, 'receipt')} were lost: ${gone.join(', ')}. Their events are delivered again with new receipts; do not use these again.`;
  const later =
    away.length === 0
      ? ''
      : ` The database of ${counted(away.length, 'receipt')} does not answer now: ${away.join(', ')}. Send these again in a few seconds.`;
  return {
    kind: 'answer',
    structured: outcome.body,
    text: `${verb} ${counted(done.length, 'delivery', 'deliveries')}.${lost}${later} ${nextWait}`,
  };
}

function deliveriesOf(receiptTexts: readonly string[]): string[] {
  return receiptTexts.flatMap((text) => parseReceipt(text)?.deliveryId ?? []);
}

export const leaseTools: readonly Tool[] = [
  waitForEvents,
  tool({
    name: 'acknowledge',
    title: 'Acknowledge events',
    description:
      'Reports that the work for these deliveries is complete, so that Weir does not deliver them again. Call it once the work of an event has succeeded, or needs no work. Returns the receipts that are done, and those that are gone because their lease had expired: those events are delivered again. Repeating a call is harmless. Afterwards call wait_for_events.',
    access: 'agent',
    hints: { readOnly: false, idempotent: true },
    input: z.strictObject({ receipts }),
    output: settled,
    run: (input, operations) => settle(operations, 'ack', input, 'Acknowledged'),
    recordOf: ({ done }) => ({ action: 'delivery.acknowledge', deliveryIds: deliveriesOf(done) }),
  }),
  tool({
    name: 'reject',
    title: 'Reject events',
    description:
      'Reports that the work for these deliveries failed. Weir delivers them again after delay_seconds, and after too many attempts keeps them as dead letters for a person. Call it when you cannot complete the work now, and say why in reason. Returns the receipts that are done, and those that are gone because their lease had expired. Afterwards call wait_for_events.',
    access: 'agent',
    hints: { readOnly: false, destructive: 'nack' },
    input: z.strictObject({
      receipts,
      delay_seconds: z
        .number()
        .min(0)
        .max(86_400)
        .optional()
        .describe('seconds until the next attempt; absent: longer with each attempt'),
      reason: z
        .string()
        .max(2_000)
        .optional()
        .describe('why the work failed, for the people who look after Weir; 500 characters are kept'),
    }),
    output: settled,
    run: (input, operations) => settle(operations, 'nack', input, 'Rejected'),
    recordOf: ({ done }) => ({ action: 'delivery.reject', deliveryIds: deliveriesOf(done) }),
  }),
  tool({
    name: 'extend_lease',
    title: 'Extend leases',
    description:
      'Keeps deliveries leased to you for lease_seconds from now. Call it before leased_until when the work takes longer, again and again if need be. Returns the receipts that are extended (done), and those whose lease had already expired (gone): stop working on those, because they are delivered again.',
    access: 'agent',
    hints: { readOnly: false, idempotent: true },
    input: z.strictObject({
      receipts,
      lease_seconds: leaseSeconds.describe('length of the lease from now on, 5 to 3600 seconds'),
    }),
    output: settled,
    run: (input, operations) => settle(operations, 'extend', input, 'Extended the leases of'),
    recordOf: ({ done }) => ({ action: 'delivery.extend', deliveryIds: deliveriesOf(done) }),
  }),
];
