/** Alerts as users see them: conditions that need a person, and the requests that reported them. */
import { z } from 'zod';
import { example, timeOf } from './fields.ts';

/** The conditions, with what they concern and the unit of their value and threshold. */
export const conditions = {
  pending: { subject: 'agent', unit: 'seconds' },
  dead_letters: { subject: 'agent', unit: 'deliveries' },
  rejections: { subject: 'webhook', unit: 'requests_per_minute' },
  silent: { subject: 'webhook', unit: 'seconds' },
  spool: { subject: 'machine', unit: 'events' },
} as const satisfies Record<string, { subject: 'agent' | 'webhook' | 'machine'; unit: string }>;

export type Condition = keyof typeof conditions;
export const conditionNames = Object.keys(conditions) as Condition[];

const subjectSchema = z.object({
  kind: z.enum(['agent', 'webhook', 'machine']).describe('kind of the subject'),
  id: z.string().describe('id of the agent or webhook; name of the spool folder of the machine'),
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
  last_error: z.string().nullable().describe('why the latest attempt failed; null: it did not'),
});

export const alertSchema = z
  .object({
    id: z.guid().describe('id of the alert'),
    condition: z
      .enum(conditionNames)
      .describe(
        'pending: the oldest delivery of an agent waits for longer than ALERT_PENDING_SECONDS; dead_letters: new ones of an agent; rejections: of a webhook, more than ALERT_REJECTIONS_PER_MINUTE; silent: a webhook has no event for expect_every_seconds; spool: events wait in INGEST_SPOOL_DIR',
      ),
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
  error: z.string().nullable().describe('why it failed; null: it did not'),
  fix: z.string().nullable().describe('how to fix that'),
});
export type AlertTest = z.output<typeof alertTestSchema>;
