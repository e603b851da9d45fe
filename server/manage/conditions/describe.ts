/** A condition as issues, `weir doctor` and alerts describe it: its subject, sentences, and the page where to act. */
import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { z } from 'zod';
import { HOUR_MS } from '../../base/time/durations.ts';
import type { alertSchema } from '../../model/alerts.ts';
import { broken, type Finding } from '../../model/check.ts';
import { type ConditionKind, conditionOf, reportOf } from '../../model/conditions.ts';
import { ISSUE_HOURS, type Issue } from '../../model/issues.ts';
import type { LowDisk } from '../../model/machines.ts';
import { counted, inWords } from '../../model/words.ts';
import type { Cell } from '../../store/cells/cell.ts';
import { isoTime } from '../../store/ids.ts';
import type { AlertRow } from '../../store/queries/alerts/alerts.ts';
import type { IssueFacts, IssueRow } from '../../store/queries/alerts/issues.ts';

/** A condition that holds, as it was found. */
export interface Held {
  kind: ConditionKind;
  /** Undefined: the installation. */
  subject?: { id: string; name: string };
  value?: number;
  threshold?: number | null;
  since?: string;
  /** The cause, and its fix; undefined: the texts of the table. */
  cause?: string;
  fix?: string;
  /** The group within the subject, and the query of the page that lists the group: `&reason=...`. */
  part?: string;
  query?: string;
}

/** The group that stands for all groups over the limit. */
export const FURTHER = { part: 'further', cause: 'further reasons' } as const;

/** This machine as the subject of a condition. */
export const thisMachine = () => ({ id: hostname(), name: hostname() });

/** Prefix of the ids of this machine's disks. */
export const DISK_HERE = `${hostname()}:`;

/** A disk of this machine as the subject of a condition. */
export function diskSubject({ place, places }: LowDisk): NonNullable<Held['subject']> {
  return { id: `${DISK_HERE}${place}`, name: `${places} on ${hostname()}` };
}

/** A cell that cannot be used, or stores nothing. */
export type TroubledCell = Pick<Cell, 'number' | 'name' | 'troubleSinceMs'>;

/** A cell as the subject of a condition. */
export function cellSubject({ number, name }: TroubledCell): NonNullable<Held['subject']> {
  return { id: String(number), name: `${number} (${name})` };
}

/** A row about a webhook as the subject of its condition. */
export const webhookOf = ({ webhook_id: id, name }: { webhook_id: string; name: string }) => ({ id, name });

/** Seconds from `iso` to `nowMs`. */
export const secondsSince = (iso: string, nowMs: number) => (nowMs - Date.parse(iso)) / 1000;

/** A condition whose value is its duration. */
export function lasting(kind: ConditionKind, subject: NonNullable<Held['subject']>, since: string, nowMs: number) {
  return { kind, subject, since, value: secondsSince(since, nowMs) };
}

/** Limit on `part`: a reason with the name of its header. */
export const PART_CHARACTERS_MAX = 300;

/** A stored issue as the API returns it, with the texts of the table of conditions. @param nowMs Unix milliseconds */
export function describeIssue(row: IssueRow, publicUrl: string, nowMs: number): Issue {
  const { id, kind, subject_id, first_at, last_at, count, facts, resolved_at, assignee, note } = row;
  const { name, cause, fix, query = '', began_after } = facts;
  const { subject, severity, page, fix: usualFix } = conditionOf(kind);
  const isSnoozed = resolved_at === null && row.snoozed_until !== null && Date.parse(row.snoozed_until) > nowMs;
  const isOver = kind === 'database' && resolved_at !== null;
  return {
    id,
    kind,
    severity,
    subject: { kind: isOver ? 'machine' : subject, id: subject_id, name },
    title: isOver ? outageText(row) : textOf({ ...facts, kind, subject: { id: subject_id, name }, cause: cause ?? '' }),
    fix: fix ?? usualFix,
    url: `${publicUrl}${page(subject_id)}${query}`,
    first_at,
    last_at,
    count,
    hours: hoursOf(facts, nowMs),
    state: resolved_at !== null ? 'resolved' : isSnoozed ? 'snoozed' : 'open',
    resolved_at,
    assignee,
    note,
    snoozed_until: isSnoozed ? row.snoozed_until : null,
    ...(began_after === undefined ? {} : { began_after }),
  };
}

function outageText({ facts, first_at, resolved_at }: IssueRow): string {
  const seconds = (Date.parse(resolved_at ?? first_at) - Date.parse(first_at)) / 1000;
  const { name, refused = 0, spooled = 0 } = facts;
  return `Postgres did not commit events of machine ${name} for ${inWords(seconds)}: ${counted(refused, 'request')} refused, ${counted(spooled, 'event')} spooled.`;
}

/** The largest value of each of the last ISSUE_HOURS hours, oldest first. */
export function hoursOf({ hours }: Pick<IssueFacts, 'hours'>, nowMs: number): number[] {
  const none: number[] = Array(ISSUE_HOURS).fill(0);
  if (hours === undefined) return none;
  const passed = Math.min(ISSUE_HOURS, Math.max(0, Math.floor(nowMs / HOUR_MS) - hours.hour));
  return [...hours.values, ...none].slice(passed, passed + ISSUE_HOURS);
}

/** The issue of a condition that cannot be stored, because Postgres commits nothing. Its id is the same in each process. */
export function unstored({ kind, subject, since, ...facts }: Held, nowMs: number): IssueRow {
  const [now, subject_id, name] = [isoTime(nowMs), subject?.id ?? '', subject?.name ?? ''];
  const hex = createHash('sha256').update(`${kind} ${subject_id}`).digest('hex');
  const id = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  const none = { part: '', resolved_at: null, assignee: null, note: null, snoozed_until: null };
  return { ...none, id, kind, subject_id, first_at: since ?? now, last_at: now, count: 1, facts: { ...facts, name } };
}

/** The condition as a finding of `weir doctor`, whose sentences have no full stop. */
export function conditionFinding(held: Held): Finding {
  const phrase = (text: string) => `${text[0]!.toLowerCase()}${text.slice(1).replace(/\.$/, '')}`;
  return broken(phrase(textOf(held)), phrase(held.fix ?? conditionOf(held.kind).fix));
}

function textOf({ kind, subject, value = 0, threshold = null, cause = '' }: Held): string {
  return conditionOf(kind).text({ name: subject?.name ?? '', value, threshold, cause });
}

type DescribedAlert = Omit<z.input<typeof alertSchema>, 'requests'>;

/** An alert as the API returns it, without its requests. @param publicUrl PUBLIC_URL */
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

/** The sentence of an alert that a revocation has ended: its cause is not solved. */
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
