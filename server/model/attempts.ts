/** Attempts of a delivery, and the actions of users between them. */
import { z } from 'zod';
import { textOrNull, timeOrNull } from './fields.ts';

const attemptOutcomes = [
  'acknowledged',
  'rejected',
  'expired',
  'revoked',
  'released',
  'replayed',
  'dismissed',
  'restored',
  'filtered',
] as const;

export const attemptSchema = z
  .object({
    outcome: z
      .enum(attemptOutcomes)
      .nullable()
      .describe(
        'rejected: nack; expired: the lease; revoked: the agent; released, which counts as no attempt: the agent disconnected before it got the delivery, or returned it before it began the work. replayed, dismissed and restored (an undo) are actions of a user; filtered: the filter of the subscription excluded the event. null: the lease is active',
      ),
    lease: z
      .int()
      .nullable()
      .describe('number of the lease, as in the receipt; null: an action of a user, or filtered'),
    leased_at: timeOrNull('when the agent claimed the delivery; null: an action of a user, or filtered'),
    lease_seconds: z.number().nullable().describe('length of the lease with its extensions'),
    agent_address: textOrNull('address from which the agent claimed the delivery'),
    at: timeOrNull('when the attempt ended, or the user acted; null: the lease is active'),
    duration_ms: z.number().nullable().describe('from the claim to the end of the attempt'),
    reason: textOrNull('reason that the agent gave'),
    retry_seconds: z.number().nullable().describe('delay after which the delivery could be claimed again'),
  })
  .meta({
    id: 'Attempt',
    examples: [
      {
        outcome: 'rejected',
        lease: 1,
        leased_at: '2026-11-21T20:04:48.298Z',
        lease_seconds: 60,
        agent_address: '192.0.2.20',
        at: '2026-11-21T20:04:51.302Z',
        duration_ms: 3004,
        reason: 'timeout calling CRM',
        retry_seconds: 5,
      },
    ],
  });

export type Attempt = z.output<typeof attemptSchema>;
