/** Inputs and answers of the agent routes, for the OpenAPI document. */
import { z } from 'zod';
import { AGENT_SESSION_SECONDS } from '../auth/agent.ts';
import type { ProblemCode } from '../errors.ts';
import { jsonBodyProblems } from '../http/parsed-body.ts';
import { COUNTED_MAX } from '../resources/events.ts';
import { contentType, example, idOf, nameOf, receivedAt, timeOf } from '../resources/fields.ts';
import { claimSchema } from './claim.ts';
import { sessionSchema } from './session.ts';
import { ackSchema, extendSchema, nackSchema } from './settle.ts';

const agent = z.object({ id: idOf('agent'), name: nameOf('agent') });

const me = agent.extend({
  pending: z.int().describe(`deliveries in state pending, counted up to ${COUNTED_MAX}`),
  oldest_pending_seconds: z
    .int()
    .nullable()
    .describe('how long the oldest claimable delivery has waited; null: no delivery is waiting'),
});

const session = z.object({
  access_token: z.string().describe('the bearer token of all other requests of the agent'),
  token_type: z.literal('Bearer').describe('type of the token (RFC 6750)'),
  expires_in: z.int().describe('seconds for which access_token is valid'),
  agent: agent.describe('the agent that the credential belongs to'),
});

const claimed = z.object({
  deliveries: z
    .array(
      z.object({
        id: idOf('delivery'),
        receipt: z.string().describe('identifies this delivery and this attempt'),
        attempt: z.int().describe('1 for the first claim of this delivery'),
        leased_until: timeOf('end of the lease; after it the delivery can be claimed again'),
        event: z
          .object({
            id: idOf('event'),
            webhook_id: idOf('webhook'),
            webhook_name: nameOf('webhook'),
            received_at: receivedAt,
            content_type: contentType,
            headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
            body: z.string().optional().describe('the body, when its bytes are UTF-8 without NUL'),
            body_base64: z.string().optional().describe('any other body, in base64'),
          })
          .describe('the stored request'),
      }),
    )
    .describe('the claimed deliveries; empty: no delivery was waiting'),
});

const settled = z.object({
  done: z.array(z.string()).describe('receipts that were settled'),
  gone: z.array(z.string()).describe('receipts whose leases were lost'),
});

const agentExample = { id: example.agent_id, name: 'invoices' };
const receipt = `${example.delivery_id}.17`;
const examples = {
  session: { credential: 'wa_…' },
  sessionAnswer: {
    access_token: 'ws_…',
    token_type: 'Bearer' as const,
    expires_in: AGENT_SESSION_SECONDS,
    agent: agentExample,
  },
  me: { ...agentExample, pending: 3, oldest_pending_seconds: 12 },
  claim: { max: 10, lease_seconds: 60, wait_seconds: 20 },
  claimed: {
    deliveries: [
      {
        id: example.delivery_id,
        receipt,
        attempt: 1,
        leased_until: example.leased_until,
        event: {
          id: example.event_id,
          webhook_id: example.webhook_id,
          webhook_name: 'shop',
          received_at: example.received_at,
          content_type: 'application/json',
          headers: { 'content-type': 'application/json' },
          body: '{"type":"order.created","order":{"id":1042}}',
        },
      },
    ],
  },
  ack: { receipts: [receipt] },
  nack: { receipts: [receipt], delay_seconds: 60, reason: 'the invoice service answers 503' },
  extend: { receipts: [receipt], lease_seconds: 120 },
  settled: { done: [receipt], gone: [] },
};

const access: readonly ProblemCode[] = ['agent_unauthenticated', 'rate_limited'];
const withBody: readonly ProblemCode[] = [...access, ...jsonBodyProblems];
const json = (schema: z.ZodType, example: unknown) => ({ 'application/json': schema.meta({ examples: [example] }) });
const settledAnswer = { 200: settled.meta({ examples: [examples.settled] }) };

export const agentDescriptions = {
  agentSession: {
    input: json(sessionSchema, examples.session),
    answers: { 200: session.meta({ examples: [examples.sessionAnswer] }) },
    problems: withBody,
  },
  agentMe: { answers: { 200: me.meta({ examples: [examples.me] }) }, problems: access },
  claim: {
    input: json(claimSchema, examples.claim),
    answers: { 200: claimed.meta({ examples: [examples.claimed] }) },
    problems: withBody,
  },
  ack: { input: json(ackSchema, examples.ack), answers: settledAnswer, problems: withBody },
  nack: { input: json(nackSchema, examples.nack), answers: settledAnswer, problems: withBody },
  extend: { input: json(extendSchema, examples.extend), answers: settledAnswer, problems: withBody },
};
