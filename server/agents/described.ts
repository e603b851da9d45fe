/** What the agents' routes take and answer, for the OpenAPI document. */
import { z } from 'zod';
import { COUNTED_MAX } from '../db/queries/count-deliveries.ts';
import type { ProblemCode } from '../errors.ts';
import { jsonBodyProblems } from '../http/parsed-body.ts';
import { claimSchema } from './claim.ts';
import { sessionSchema } from './session.ts';
import { ackSchema, extendSchema, nackSchema } from './settle.ts';

const agent = z.object({ id: z.guid(), name: z.string() });

const me = agent.extend({
  pending: z.int().describe(`deliveries in state pending, counted up to ${COUNTED_MAX}`),
  oldest_pending_seconds: z
    .int()
    .nullable()
    .describe('how long the oldest claimable delivery has waited; null: none waits'),
});

const session = z.object({
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.int().describe('seconds'),
  agent,
});

const claimed = z.object({
  deliveries: z.array(
    z.object({
      id: z.guid(),
      receipt: z.string().describe('names this delivery and this attempt'),
      attempt: z.int(),
      leased_until: z.iso.datetime(),
      event: z.object({
        id: z.guid(),
        webhook_id: z.guid(),
        webhook_name: z.string(),
        received_at: z.iso.datetime(),
        content_type: z.string().nullable(),
        headers: z.record(z.string(), z.string()),
        body: z.string().optional().describe('when the bytes are UTF-8 without NUL'),
        body_base64: z.string().optional().describe('otherwise'),
      }),
    }),
  ),
});

const settled = z.object({
  done: z.array(z.string()),
  gone: z.array(z.string()).describe('their leases were lost'),
});

const access: readonly ProblemCode[] = ['agent_unauthenticated', 'rate_limited'];
const withBody: readonly ProblemCode[] = [...access, ...jsonBodyProblems];
const json = (schema: z.ZodType) => ({ 'application/json': schema });

export const agentDescriptions = {
  agentSession: { input: json(sessionSchema), answers: { 200: session }, problems: withBody },
  agentMe: { answers: { 200: me }, problems: access },
  claim: { input: json(claimSchema), answers: { 200: claimed }, problems: withBody },
  ack: { input: json(ackSchema), answers: { 200: settled }, problems: withBody },
  nack: { input: json(nackSchema), answers: { 200: settled }, problems: withBody },
  extend: { input: json(extendSchema), answers: { 200: settled }, problems: withBody },
};
