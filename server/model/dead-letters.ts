/** Dead letters by reason, and the replay or dismissal of many deliveries. */
import { z } from 'zod';
import { COUNTED_MAX } from './events.ts';
import { recordId, textOrNull, timeOf } from './fields.ts';

export const deadGroupSchema = z
  .object({
    reason: textOrNull('reason of the last attempt; null: the agent gave none'),
    deliveries: z.int().describe('number of dead letters'),
    agents: z.int().describe('number of agents'),
    agent_ids: z.array(z.guid()).describe('ids of up to 5 of these agents'),
    first_at: timeOf('when the first of them became dead'),
    last_at: timeOf('when the last of them became dead'),
  })
  .meta({ id: 'DeadLetterGroup' });

export const deadGroupsSchema = z.object({
  items: z.array(deadGroupSchema).describe('the most frequent reason first'),
  complete: z
    .boolean()
    .describe(`false: only the newest ${COUNTED_MAX} dead letters are counted, or rare reasons are omitted`),
});

/** A reason as it is stored: at most 500 characters, which are up to 1,000 UTF-16 units. */
export const reasonText = z
  .string()
  .max(1_000)
  .refine((value) => !/\0|\p{Cs}/u.test(value), 'NUL and unpaired surrogates are not in any reason.');
const actionId = z
  .guid()
  .nullable()
  .describe('id by which the action can be undone for 24 hours; null: nothing was changed');

/** Whether deliveries in this state are replayed only for one agent at a time: its agent acknowledged them, or did not want them. */
export const needsOneAgent = (state: string): boolean => state === 'done' || state === 'filtered';

export const undoInput = z.strictObject({ action_id: recordId.describe('from the response of the action') });

const more = {
  more: z.boolean().describe('true: more deliveries match; repeat the request with finished_before'),
  finished_before: timeOf(
    'time before which they were finished; without it, a repeated request replays what was acknowledged since',
  ),
};

export const replayedSchema = z.object({
  replayed: z.int().describe('number of deliveries that are pending again'),
  ...more,
  action_id: actionId,
});

export const dismissedSchema = z.object({
  dismissed: z.int().describe('number of deliveries that are dismissed'),
  ...more,
  action_id: actionId,
});

export const undoneSchema = z.object({
  restored: z.int().describe('number of deliveries restored to what they were before the action'),
  others: z.int().describe('number of deliveries that were claimed or changed since, and stay as they are'),
});
