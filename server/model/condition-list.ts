/** Conditions as GET /api/v1/conditions lists them, and how a person snoozes one. */
import { z } from 'zod';
import { conditionKinds, conditionTable } from './conditions.ts';
import { recordId, timeOf } from './fields.ts';

/** Kind of a condition and, unless it is of the installation, `:` and the id of its subject. */
export const conditionId = z.string().regex(/^[a-z_]{1,40}(:[\w.-]{1,250})?$/);

export const snoozeSpan = z
  .enum(['1h', '1d', 'change', 'none'])
  .describe(
    'how long: an hour, a day, or until the condition changes, a week at most; none: ends a snooze. It also ends when the condition does',
  );
export type SnoozeSpan = z.output<typeof snoozeSpan>;

export const conditionSchema = z.object({
  id: conditionId.describe('id for POST /api/v1/conditions/{id}/snooze, the same while the condition holds'),
  kind: z
    .enum(conditionKinds)
    .describe(conditionKinds.map((kind) => `${kind}: ${conditionTable[kind].meaning}`).join('; ')),
  severity: z
    .enum(['critical', 'warning'])
    .describe('critical: senders or agents are affected, act now; warning: act today'),
  text: z.string().describe('what is wrong, as a sentence'),
  fix: z.string().describe('what to do first'),
  url: z.url().describe('page where to act'),
  webhook_id: recordId.nullable().describe('the webhook; null: none'),
  agent_id: recordId.nullable().describe('the agent; null: none'),
  name: z.string().nullable().describe('name of the webhook, agent or machine, or process id'),
  count: z
    .number()
    .int()
    .nullable()
    .describe('dead letters, requests, filters, events, deliveries or tables; null: nothing is counted'),
  expect_every_seconds: z.number().int().nullable().describe('of a silent webhook; null: it has none'),
  snoozed: z
    .object({
      until: timeOf('when it ends at the latest'),
      until_change: z.boolean().describe('true: it also ends when the condition changes'),
      by: z.string().describe('who snoozed it, as in the audit log'),
    })
    .nullable()
    .describe('null: it is not snoozed'),
  since: timeOf('when it began: last event, or start of the wait').nullable().describe('null: unknown'),
});
export type Condition = z.output<typeof conditionSchema>;
