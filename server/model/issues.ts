/** Issues: conditions that were seen, with groups of rejections and of dead letters, each with who looks after it; and outages of the database. */
import { z } from 'zod';
import { type ConditionKind, conditionKinds, conditionOf, conditionTable } from './conditions.ts';
import { example, idOf, instant, prose, recordId, text, timeOf, whole } from './fields.ts';

const seen = {
  began_at: timeOf('when the database stopped answering this machine'),
  refused: whole.describe('requests to webhooks that were answered 5xx'),
  spooled: whole.describe('events that were written to the spool and answered 202'),
};

/** An outage that has not ended. */
export const ongoingOutageSchema = z.object(seen);
export type OngoingOutage = z.output<typeof ongoingOutageSchema>;

export const outageSchema = z.object({
  id: recordId.describe('the outage'),
  machine: z.string().describe('name of the machine'),
  ...seen,
  ended_at: timeOf('when the database answered again, or when Weir was stopped before'),
});
export type Outage = z.output<typeof outageSchema>;

/** Hours of `hours`. */
export const ISSUE_HOURS = 24;
/** How long resolved issues are kept, and at most how many. */
export const ISSUES_KEPT_DAYS = 90;
export const ISSUES_MAX = 10_000;
const SNOOZE_DAYS_MAX = 366;
const DAY_MS = 86_400_000;

export const issueStates = ['open', 'snoozed', 'resolved'] as const;
export const issueKind = z.enum(conditionKinds);
const assignee = text(1, 200).nullable().describe('who looks after it, such as an email address; null: not assigned');
const note = prose(2_000).nullable().describe('what is known about it; null: nothing');

export const issueSchema = z
  .object({
    id: idOf('issue'),
    kind: issueKind.describe(conditionKinds.map((kind) => `${kind}: ${conditionTable[kind].meaning}`).join('; ')),
    severity: z
      .enum(['critical', 'warning'])
      .describe('critical: senders or agents are affected, act now; warning: act today'),
    subject: z
      .object({
        kind: z.enum(['agent', 'webhook', 'machine', 'process', 'cell', 'installation']).describe('what it is'),
        id: z.string().describe('its id; of a machine its name or its spool folder; empty for the installation'),
        name: z.string().describe('its name when the issue was last seen; empty for the installation'),
      })
      .describe('what it concerns'),
    title: z.string().describe('what is wrong, as a sentence'),
    fix: z.string().describe('what to do first'),
    url: z.url().describe('page where to act'),
    first_at: timeOf('when it began, as far as Weir knows'),
    last_at: timeOf('when it was last seen'),
    count: z
      .number()
      .describe(
        'how often: dead letters, requests of the last hour, filters, events, deliveries or tables, as last seen; where none are counted, how often it began',
      ),
    hours: z
      .array(z.number())
      .length(ISSUE_HOURS)
      .describe(`largest count in each of the last ${ISSUE_HOURS} hours, oldest first; 0: it was not seen`),
    state: z.enum(issueStates).describe('resolved: its cause is gone. Nothing else resolves an issue'),
    resolved_at: timeOf('when its cause was gone').nullable().describe('null: it is not resolved'),
    assignee,
    note,
    snoozed_until: timeOf('until when it is snoozed').nullable().describe('null: it is not snoozed'),
    began_after: z
      .object({
        audit_id: z.int().describe('number of the entry in the audit log'),
        text: z.string().describe('what was changed, by whom, and how long before the issue began'),
      })
      .optional()
      .describe('the last change of what it concerns, in the hour before it began; absent: there was none'),
  })
  .meta({
    id: 'Issue',
    examples: [
      {
        id: '01a1ffb6-2a10-7c44-8f3e-0d5b7e91c2aa',
        kind: 'rejections',
        severity: 'warning',
        subject: { kind: 'webhook', id: example.webhook_id, name: 'shop' },
        title: '42 requests to webhook shop were rejected in the last hour: wrong secret, most likely.',
        fix: conditionTable.rejections.fix,
        url: `https://weir.example.org/rejections?webhook_id=${example.webhook_id}&reason=digest_differs`,
        first_at: example.received_at,
        last_at: example.leased_until,
        count: 42,
        hours: [...Array(ISSUE_HOURS - 1).fill(0), 42],
        state: 'open',
        resolved_at: null,
        assignee: 'ada@example.org',
        note: 'The sender still has the old secret.',
        snoozed_until: null,
        began_after: { audit_id: 118, text: 'Began 3 minutes after the secret was changed by ada@example.org.' },
      },
    ],
  });
export type Issue = z.output<typeof issueSchema>;
/** What a change of an issue can overwrite: the other members change with each event. */
export const issueChangeable = issueSchema.pick({ state: true, assignee: true, note: true, snoozed_until: true });

export const issueInput = z.strictObject({
  assignee: assignee.optional(),
  note: note.optional(),
  snoozed_until: instant
    .refine((at) => {
      const aheadMs = Date.parse(at) - Date.now();
      return aheadMs > 0 && aheadMs <= SNOOZE_DAYS_MAX * DAY_MS;
    }, `Give a time in the future, at most ${SNOOZE_DAYS_MAX} days ahead.`)
    .nullable()
    .optional()
    .describe(
      'a time in the future, until which it does not count as open; it ends earlier when the issue is resolved. null: ends the snooze',
    ),
});
export type IssueInput = z.output<typeof issueInput>;

/** Whether the value of this kind is a number of things: it is then the `count` of the issue. */
export const isCounted = (kind: ConditionKind): boolean => ![undefined, 'seconds'].includes(conditionOf(kind).unit);
