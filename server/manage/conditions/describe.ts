/** A condition that holds as lists, `weir doctor` and alerts say it: sentences, and the page where to act. */
import { hostname } from 'node:os';
import type { z } from 'zod';
import type { alertSchema } from '../../model/alerts.ts';
import { type Finding, problem } from '../../model/check.ts';
import type { Condition } from '../../model/condition-list.ts';
import { type ConditionKind, conditionOf, counted, inWords, reportOf } from '../../model/conditions.ts';
import type { AlertRow } from '../../store/queries/alerts/alerts.ts';

/** A condition that holds, as it was found. */
export interface Held {
  kind: ConditionKind;
  /** Undefined: the installation. */
  subject?: { id: string; name: string };
  value?: number;
  threshold?: number | null;
  since?: string;
  /** Why, and what to do about that cause. */
  cause?: string;
  fix?: string;
}

/** What this machine finds about itself. */
export const thisMachine = () => ({ id: hostname(), name: hostname() });

/** The condition with the texts of the table. */
export function describeCondition(held: Held, publicUrl: string): Condition {
  const { kind, subject, value, threshold = null, since = null } = held;
  const row = conditionOf(kind);
  return {
    id: row.subject === 'installation' ? kind : `${kind}:${subject!.id}`,
    snoozed: null,
    kind,
    severity: row.severity,
    text: textOf(held),
    fix: held.fix ?? row.fix,
    url: `${publicUrl}${row.page(subject?.id ?? '')}`,
    webhook_id: row.subject === 'webhook' ? subject!.id : null,
    agent_id: row.subject === 'agent' ? subject!.id : null,
    name: subject?.name ?? null,
    count: row.unit === null || row.unit === 'seconds' ? null : value!,
    expect_every_seconds: kind === 'silent' ? threshold : null,
    since,
  };
}

/** The condition as a finding of `weir doctor`, whose sentences have no full stop. */
export function conditionFinding(held: Held): Finding {
  const phrase = (text: string) => `${text[0]!.toLowerCase()}${text.slice(1).replace(/\.$/, '')}`;
  return problem(phrase(textOf(held)), phrase(held.fix ?? conditionOf(held.kind).fix));
}

function textOf({ kind, subject, value = 0, threshold = null, cause = '' }: Held): string {
  return conditionOf(kind).text({ name: subject?.name ?? '', value, threshold, cause });
}

type DescribedAlert = Omit<z.input<typeof alertSchema>, 'requests'>;

/** @param publicUrl PUBLIC_URL */
export function describeAlert(alert: AlertRow, publicUrl: string): DescribedAlert {
  const { id, condition, subject_id, subject_name, since, began_at, ended_at, value, threshold, undelivered } = alert;
  const { subject, page } = conditionOf(condition);
  const report = reportOf(condition);
  const facts = { name: subject_name, value, threshold, cause: '' };
  return {
    id,
    condition,
    subject: { kind: subject as DescribedAlert['subject']['kind'], id: subject_id, name: subject_name },
    text:
      ended_at === null
        ? report.text(facts)
        : `${typeof undelivered !== 'number' ? report.over(subject_name) : revoked(subject_name, undelivered)} ${lasted(began_at, ended_at)}`,
    since,
    began_at,
    ended_at,
    value,
    threshold,
    unit: report.unit,
    url: `${publicUrl}${page(subject_id)}`,
  };
}

/** A revoked agent solves nothing. */
function revoked(name: string, undelivered: number): string {
  return `Agent ${name} is revoked, ${counted(undelivered, 'delivery', 'deliveries')} undelivered.`;
}

function lasted(beganAt: string, endedAt: string): string {
  return `The alert lasted ${inWords((Date.parse(endedAt) - Date.parse(beganAt)) / 1000)}.`;
}

/** The JSON body of a request to ALERT_URL. @param nowMs time of the message, Unix milliseconds. */
export function alertBody(
  type: 'alert.began' | 'alert.ended',
  alert: AlertRow,
  publicUrl: string,
  nowMs: number,
): string {
  const { id, text, ...described } = describeAlert(alert, publicUrl);
  const mark = type === 'alert.began' ? 'Alert' : 'Ended';
  return JSON.stringify({
    type,
    timestamp: new Date(nowMs).toISOString(),
    text: `${mark}: ${text} ${described.url}`,
    alert_id: id,
    ...described,
  });
}
