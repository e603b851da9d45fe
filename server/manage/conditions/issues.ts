/** Issues: the conditions that hold, as the database keeps them. A read of a list updates them, and so does one process of each machine. */
import { randomBytes } from 'node:crypto';
import { HOUR_MS } from '../../base/time/durations.ts';
import { type ConditionKind, conditionOf } from '../../model/conditions.ts';
import { ISSUE_HOURS, isCounted } from '../../model/issues.ts';
import { inWords } from '../../model/words.ts';
import { advisoryLocks, tryShortLock } from '../../store/advisory-locks.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import { isoTime, uuidText, uuidv7 } from '../../store/ids.ts';
import { readDeletedWebhooks } from '../../store/queries/alerts/condition-signs.ts';
import {
  deleteOldIssues,
  type IssueFacts,
  type IssueRow,
  readChangesBefore,
  readCurrentIssues,
  writeIssues,
} from '../../store/queries/alerts/issues.ts';
import { FURTHER, type Held, hoursOf } from './describe.ts';

/** An issue that returns within this time is continued, so that alternating conditions do not fill the list. */
export const RETURN_MS = HOUR_MS;
/**
 * Time between two writes of `last_at` of an unchanged issue. With more than 2,000 conditions it is SEEN_MS for each of them, except for
 * issues that only this machine finds.
 */
const SEEN_EVERY_MS = 10_000;
const SEEN_MS = 5;
/** An issue that each machine finds by itself is resolved when no machine has found it for this long. */
const LOCAL_GONE_MS = 45_000;
/** Longest pause within an update: after it, another process may update the issues. */
const PAUSE_SECONDS_MAX = 10;
/** Groups of one webhook or agent within RETURN_MS; further ones are counted as one, so that a flood of reasons does not fill the list. */
export const GROUPS_MAX = 10;
/** A change this long before an issue began may be its cause. */
const CHANGE_MS = HOUR_MS;

/**
 * Brings the issues up to date with the conditions that hold. Does nothing while another process does so.
 * @param nowMs Unix milliseconds
 * @param cut kinds of which more conditions may hold: their issues are not resolved
 */
export async function recordHeld(
  database: Database,
  held: readonly Held[],
  nowMs: number,
  cut: ReadonlySet<ConditionKind> = new Set(),
): Promise<void> {
  const changed = async (query: Query) => {
    const rows = await readCurrentIssues(query, nowMs - RETURN_MS);
    return changesOf(rows, held, await leftOutOf(cut, rows, ({ kind }) => kind, query), nowMs);
  };
  if ((await changed(database.query)).length === 0) return;
  await database.transaction(async (query) => {
    if (!(await tryShortLock(query, advisoryLocks.issues, PAUSE_SECONDS_MAX))) return;
    const changes = await changed(query);
    const begun = changes.filter(({ isNew }) => isNew);
    if (begun.length > 0) await addCauses(query, begun, nowMs);
    await writeIssues(query, changes);
    if (begun.length > 0) await deleteOldIssues(query);
  });
}

/**
 * Returns a check whether the condition of a row, an issue or an alert, may hold although it was not read: the list of its kind was cut, and
 * the webhook that the row is about is not deleted.
 * @param cut the conditions whose lists were cut
 */
export async function leftOutOf<Kind extends ConditionKind, Row extends { subject_id: string }>(
  cut: ReadonlySet<Kind>,
  rows: readonly Row[],
  kindOf: (row: Row) => Kind,
  query: Query,
): Promise<(row: Row) => boolean> {
  const ofWebhooks = rows.filter((row) => cut.has(kindOf(row)) && conditionOf(kindOf(row)).subject === 'webhook');
  const deleted = await readDeletedWebhooks({ query }, ofWebhooks);
  return (row) => cut.has(kindOf(row)) && !deleted.has(row.subject_id);
}

type IssueChange = IssueRow & { isNew: boolean };

const subjectOf = ({ kind, subject_id }: Pick<IssueRow, 'kind' | 'subject_id'>) => `${kind} ${subject_id}`;
const keyOf = (row: Pick<IssueRow, 'kind' | 'subject_id' | 'part'>) => `${subjectOf(row)} ${row.part}`;

/**
 * The rows to write.
 * @param rows current ones; of several with one key, the last counts
 * @param mayHold whether the condition of an issue may hold although it was not read
 */
function changesOf(
  rows: readonly IssueRow[],
  held: readonly Held[],
  mayHold: (row: IssueRow) => boolean,
  nowMs: number,
): IssueChange[] {
  const known = new Map(rows.map((row) => [keyOf(row), row]));
  const now = isoTime(nowMs);
  const seenEveryMs = Math.max(SEEN_EVERY_MS, held.length * SEEN_MS);
  const found = new Set<string>();
  const changed = new Map<string, IssueChange>();
  for (const one of grouped(held, rows)) {
    const { kind, subject, part = '', value = 0, since = now } = one;
    const at = { kind, subject_id: subject?.id ?? '', part };
    const key = keyOf(at);
    const row = known.get(key);
    const isNew = row === undefined;
    const begins = isNew || row.resolved_at !== null;
    const count = isCounted(kind) ? value : (row?.count ?? 0) + Number(begins);
    found.add(key);
    const everyMs = conditionOf(kind).local === true ? SEEN_EVERY_MS : seenEveryMs;
    if (!begins && row.count === count && isSame(row.facts, one) && nowMs - Date.parse(row.last_at) < everyMs) continue;
    changed.set(key, {
      ...at,
      id: row?.id ?? uuidText(uuidv7(nowMs, randomBytes(16))),
      first_at: row?.first_at ?? since,
      last_at: now,
      count,
      facts: factsOf(one, row?.facts, nowMs),
      resolved_at: null,
      assignee: row?.assignee ?? null,
      note: row?.note ?? null,
      snoozed_until: row?.snoozed_until ?? null,
      isNew,
    });
  }
  const isGone = (row: IssueRow) =>
    row.resolved_at === null &&
    !found.has(keyOf(row)) &&
    !mayHold(row) &&
    (conditionOf(row.kind).local !== true || nowMs - Date.parse(row.last_at) >= LOCAL_GONE_MS);
  const gone = rows.filter(isGone).map((row): IssueChange => ({ ...row, resolved_at: now, isNew: false }));
  return [...gone, ...changed.values()];
}

/** Whether the texts are equal, except for numbers that change with time. */
function isSame({ name, cause, fix }: IssueFacts, held: Held): boolean {
  return name === (held.subject?.name ?? '') && cause === held.cause && fix === held.fix;
}

/** The conditions that hold, with at most GROUPS_MAX groups of a subject; the others become one group. */
function grouped(held: readonly Held[], rows: readonly IssueRow[]): Held[] {
  const groups = new Map<string, Set<string>>();
  const groupsOf = (subject: string) => groups.get(subject) ?? groups.set(subject, new Set()).get(subject)!;
  for (const row of rows) if (!['', FURTHER.part].includes(row.part)) groupsOf(subjectOf(row)).add(row.part);
  const further = new Map<string, Held>();
  const listed: Held[] = [];
  for (const one of held) {
    // The primary stores an outage of the database at its end.
    if (one.kind === 'database') continue;
    const subject = subjectOf({ kind: one.kind, subject_id: one.subject?.id ?? '' });
    const { part, query: _, ...rest } = one;
    if (part === undefined || groupsOf(subject).has(part)) listed.push(one);
    else if (part !== FURTHER.part && groupsOf(subject).size < GROUPS_MAX) {
      groupsOf(subject).add(part);
      listed.push(one);
    } else further.set(subject, { ...rest, ...FURTHER, value: one.value! + (further.get(subject)?.value ?? 0) });
  }
  return [...listed, ...further.values()];
}

function factsOf(held: Held, before: IssueFacts | undefined, nowMs: number): IssueFacts {
  const { kind, subject, value, threshold = null, cause, fix, query } = held;
  const hour = Math.floor(nowMs / HOUR_MS);
  const values = hoursOf(before ?? {}, nowMs);
  values[ISSUE_HOURS - 1] = Math.max(values.at(-1)!, isCounted(kind) ? (value ?? 0) : 1);
  const began_after = before?.began_after;
  return {
    name: subject?.name ?? '',
    value,
    threshold,
    cause,
    fix,
    query,
    hours: { hour, values },
    began_after,
  } as IssueFacts;
}

/** Changes that may be the cause of an issue, by their action in the audit log. */
const changes: Readonly<Record<string, string>> = {
  'webhook.create': 'the webhook was created',
  'webhook.update': 'the webhook was changed',
  'webhook.rotate_secret': 'the secret was changed',
  'webhook.end_previous_secret': 'the previous secret was ended',
  'webhook.move': 'the webhook was moved to another cell',
  'agent.create': 'the agent was created',
  'agent.update': 'the agent was changed',
  'agent.rotate': 'the credential was rotated',
  'agent.revoke': 'the agent was revoked',
  'agent.subscribe': 'the agent was subscribed to a webhook',
  'agent.unsubscribe': 'the agent was unsubscribed from a webhook',
};

/** Adds to each new issue the last change of its subject. For silence and queues the change may come after the beginning. */
async function addCauses(query: Query, begun: readonly IssueChange[], nowMs: number): Promise<void> {
  const spans = begun.map(({ id, kind, subject_id, first_at }) => ({
    id,
    subject_id,
    since: isoTime(Date.parse(first_at) - CHANGE_MS),
    until: kind === 'silent' || kind === 'pending' ? isoTime(nowMs) : first_at,
  }));
  for (const { id, number, at, action, by } of await readChangesBefore(query, spans, Object.keys(changes))) {
    const issue = begun.find((one) => one.id === id)!;
    const ms = Date.parse(issue.first_at) - Date.parse(at);
    const what = `${changes[action]} by ${by}`;
    const text =
      ms >= 0
        ? `Began ${ms < 1000 ? 'less than a second' : inWords(ms / 1000)} after ${what}.`
        : `${what[0]!.toUpperCase()}${what.slice(1)}, ${inWords(-ms / 1000)} after it began.`;
    issue.facts.began_after = { audit_id: number, text };
  }
}
