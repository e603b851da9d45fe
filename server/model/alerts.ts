/** Alerts as users see them: conditions that were reported, and the requests that reported them. */
import { z } from 'zod';
import { reportedKinds, reportOf } from './conditions.ts';
import { example, textOrNull, timeOf } from './fields.ts';

const subjectSchema = z.object({
  kind: z.enum(['agent', 'webhook', 'machine']).describe('kind of the subject'),
  id: z
    .string()
    .describe('id of the agent or webhook; name of the spool folder of the machine, or machine and place of a disk'),
  name: z.string().describe('its name when the alert began'),
});

const requestSchema = z.object({
  id: z.guid().describe('webhook-id of the request, the same at each attempt'),
  type: z.enum(['alert.began', 'alert.ended']).describe('what it reports'),
  state: z.enum(['pending', 'sent', 'failed']).describe('sent: answered with 2xx; failed: given up'),
  attempts: z.int().describe('attempts so far'),
  created_at: timeOf('when it was created'),
  last_attempt_at: timeOf('when the latest attempt began').nullable().describe('null: none yet'),
  last_status: z.int().nullable().describe('status of the latest response; null: there was none'),
  last_error: textOrNull('why the latest attempt failed; null: it did not'),
});

export const alertSchema = z
  .object({
    id: z.guid().describe('id of the alert'),
    condition: z
      .enum(reportedKinds)
      .describe(reportedKinds.map((kind) => `${kind}: ${reportOf(kind).meaning}`).join('; ')),
    subject: subjectSchema.describe('what it concerns'),
    text: z.string().describe('the alert as a sentence'),
    since: timeOf('since when the condition has held'),
    began_at: timeOf('when Weir noticed it'),
    ended_at: timeOf('when it ended').nullable().describe('null: it is active'),
    value: z.number().describe('the latest value while the condition held'),
    threshold: z.number().nullable().describe('the value above which it began; null: any'),
    unit: z.string().describe('unit of value and threshold'),
    url: z.url().describe('page where to act'),
    requests: z.array(requestSchema).describe('requests to ALERT_URL about it, oldest first'),
  })
  .meta({
    id: 'Alert',
    examples: [
      {
        id: '01a1ffb6-2a10-7c44-8f3e-0d5b7e91c2aa',
        condition: 'pending',
        subject: { kind: 'agent', id: example.agent_id, name: 'billing' },
        text: 'The oldest pending delivery of agent billing has waited for 6 minutes (limit: 5 minutes).',
        since: example.received_at,
        began_at: example.leased_until,
        ended_at: null,
        value: 372,
        threshold: 300,
        unit: 'seconds',
        url: `https://weir.example.org/agents/${example.agent_id}`,
        requests: [],
      },
    ],
  });

export type AlertRequest = z.output<typeof requestSchema>;

export const alertTestSchema = z.object({
  id: z.guid().describe('webhook-id of the request'),
  sent: z.boolean().describe('true: it was answered with 2xx'),
  status: z.int().nullable().describe('status of the response; null: there was none'),
  duration_ms: z.number().describe('time until the response or the failure'),
  error: textOrNull('why it failed; null: it did not'),
  fix: textOrNull('how to fix that'),
});
export type AlertTest = z.output<typeof alertTestSchema>;
