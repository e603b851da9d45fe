/** Inputs of the replay and the dismissal of many deliveries. */
import { z } from 'zod';
import { needsOneAgent, reasonText } from '../../../model/dead-letters.ts';
import { instant, recordId } from '../../../model/fields.ts';
import { eventId } from '../paging.ts';

/** Deliveries that one request names. */
const NAMED_MAX = 100;

const scope = {
  delivery_ids: z
    .array(eventId)
    .min(1, 'Name a delivery, or leave delivery_ids out.')
    .max(NAMED_MAX, `Name at most ${NAMED_MAX} deliveries.`)
    .optional()
    .describe('only these deliveries; absent: all that match'),
  webhook_id: recordId.nullable().default(null).describe('only deliveries of this webhook; null: of all'),
  reason: reasonText
    .nullable()
    .optional()
    .describe('only deliveries with exactly this reason; null: those without a reason'),
  finished_before: instant
    .optional()
    .describe('only deliveries that were finished before this time; absent: before the request'),
};
export const replayInput = z
  .strictObject({
    agent_id: recordId
      .nullable()
      .default(null)
      .describe('id of the agent; null: of all agents that are not revoked, only for the states dead and dismissed'),
    state: z
      .enum(['dead', 'done', 'dismissed', 'filtered'])
      .optional()
      .describe('state of the deliveries to replay; absent, only with delivery_ids: any of these states'),
    ...scope,
  })
  .refine(({ state, delivery_ids }) => state !== undefined || delivery_ids !== undefined, {
    path: ['state'],
    message: 'Give the state, or delivery_ids.',
  })
  .refine(({ agent_id, state, delivery_ids }) => agent_id !== null || delivery_ids || !state || !needsOneAgent(state), {
    path: ['agent_id'],
    message: 'Give the id of the agent: acknowledged and filtered deliveries are replayed for one agent at a time.',
  });

export const dismissInput = z.strictObject({
  agent_id: recordId.nullable().default(null).describe('id of the agent; null: of all agents'),
  ...scope,
});
