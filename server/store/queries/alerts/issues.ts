/** Issues. Outages of the database are issues of the kind `database`, which are stored when they have ended. */
import { type ConditionKind, conditionKinds } from '../../../model/conditions.ts';
import { ISSUES_KEPT_DAYS, ISSUES_MAX, type Issue, type IssueInput, type Outage } from '../../../model/issues.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { isoColumn, isoText } from '../../sql.ts';

/** The values in the text of an issue, as last seen. */
export interface IssueFacts {
  name: string;
  value?: number;
  threshold?: number | null;
  cause?: string;
  fix?: string;
  /** Appended to the address of the page where to act. */
  query?: string;
  /** Largest value of each hour: `hour` is that of the last one, in hours since 1970. */
  hours?: { hour: number; values: number[] };
  began_after?: Issue['began_after'];
  /** An outage: see model/issues.ts. */
  refused?: number;
  spooled?: number;
}

/** See the comments of the table issues. */
export interface IssueRow {
  id: string;
  kind: ConditionKind;
  subject_id: string;
  part: string;
  first_at: string;
  last_at: string;
  count: number;
  facts: IssueFacts;
  resolved_at: string | null;
  assignee: string | null;
  note: string | null;
  snoozed_until: string | null;
}

const columns = `i.id, i.kind, i.subject_id, i.part, ${isoColumn('i.first_at')}, ${isoColumn('i.last_at')}, i.count, i.facts,
  ${isoColumn('i.resolved_at')}, i.assignee, i.note, ${isoColumn('i.snoozed_until')}`;

/** A later release, beside which this one runs or from which it was rolled back, may know more kinds. */
const isKnown = `i.kind in (${conditionKinds.map((kind) => `'${kind}'`).join(', ')})`;

/** Reads the issues that are open or were resolved since a time (Unix milliseconds). Of several with the same key, the last one continues. */
export function readCurrentIssues(query: Query, resolvedSinceMs: number): Promise<IssueRow[]> {
  return query<IssueRow>({
    text: `
      select ${columns} from issues i where (i.resolved_at is null or i.resolved_at > $1) and i.kind <> 'database' and ${isKnown}
      order by i.resolved_at nulls last, i.id`,
    values: [new Date(resolvedSinceMs).toISOString()],
  });
}

/** Stores new issues, and the present state of known ones. Assignee and note stay; a snooze ends when the issue is resolved. */
export async function writeIssues(query: Query, issues: readonly IssueRow[]): Promise<void> {
  await query({
    text: `
      insert into issues (id, kind, subject_id, part, first_at, last_at, count, facts, resolved_at, snoozed_until)
      select * from json_to_recordset($1) as r (id uuid, kind text, subject_id text, part text, first_at timestamptz,
        last_at timestamptz, count float8, facts json, resolved_at timestamptz, snoozed_until timestamptz)
      on conflict (id) do update
      set last_at = excluded.last_at, count = excluded.count, facts = excluded.facts, resolved_at = excluded.resolved_at,
        snoozed_until = case when excluded.resolved_at is null then issues.snoozed_until end`,
    values: [JSON.stringify(issues)],
  });
}

/** Deletes resolved issues: those that are too old, and the oldest beyond ISSUES_MAX. */
export async function deleteOldIssues(query: Query): Promise<void> {
  await query({
    text: `
      delete from issues
      where resolved_at < now() - interval '${ISSUES_KEPT_DAYS} days' or id in (
        select id from issues where resolved_at is not null order by resolved_at desc
        offset greatest(0, ${ISSUES_MAX} - (select count(*) from issues where resolved_at is null)))`,
  });
}

const stateIs = (state: string) => `case ${state}
  when 'open' then i.resolved_at is null and (i.snoozed_until is null or i.snoozed_until <= now())
  when 'snoozed' then i.resolved_at is null and i.snoozed_until > now()
  when 'resolved' then i.resolved_at is not null
  else true end`;

/** Lists issues, newest first. @param before id of the last one of the previous page */
export function listIssues(
  { query }: Queries,
  filter: { state: Issue['state'] | null; kind: ConditionKind | null; subjectIds: readonly string[] | null },
  before: string | null,
  limit: number,
): Promise<IssueRow[]> {
  return query<IssueRow>({
    text: `
      select ${columns} from issues i
      where ${isKnown} and ${stateIs('$1::text')} and ($2::text is null or i.kind = $2) and ($3::text[] is null or i.subject_id = any ($3))
        and ($4::uuid is null or i.id < $4)
      order by i.id desc
      limit $5`,
    values: [filter.state, filter.kind, filter.subjectIds, before, limit],
  });
}

/** Counts open issues, up to a limit. */
export async function countOpenIssues({ query }: Queries, max: number): Promise<number> {
  const [row] = await query<{ count: number }>({
    name: 'count-open-issues',
    text: `select count(*)::int as count from (select from issues i where i.resolved_at is null and ${isKnown} and ${stateIs("'open'")} limit ${max}) i`,
  });
  return row!.count;
}

/** Finds an issue; undefined: not found. @param isLocked true: locks it until the transaction ends */
export async function findIssue(query: Query, id: string, isLocked = false): Promise<IssueRow | undefined> {
  const [row] = await query<IssueRow>({
    text: `select ${columns} from issues i where i.id = $1 and ${isKnown} ${isLocked ? 'for update' : ''}`,
    values: [id],
  });
  return row;
}

/** Sets the given members of an issue: assignee, note and snooze. Absent members stay unchanged. */
export async function updateIssue(query: Query, id: string, changes: IssueInput): Promise<void> {
  await query({
    text: `
      update issues i
      set assignee = case when g ? 'assignee' then g ->> 'assignee' else i.assignee end,
        note = case when g ? 'note' then g ->> 'note' else i.note end,
        snoozed_until = case when g ? 'snoozed_until' then (g ->> 'snoozed_until')::timestamptz else i.snoozed_until end
      from (select $2::jsonb) given (g)
      where i.id = $1`,
    values: [id, JSON.stringify(changes)],
  });
}

/** Reads the last change of each issue's subject from `since` to `until`. @param actions names of actions in the audit log that count */
export function readChangesBefore(
  query: Query,
  issues: readonly { id: string; subject_id: string; since: string; until: string }[],
  actions: readonly string[],
): Promise<{ id: string; number: number; at: string; action: string; by: string }[]> {
  return query({
    text: `
      select n.id, c.* from json_to_recordset($1) as n (id text, subject_id text, since text, until text)
      cross join lateral (
        select a.number::float8 as number, a.at, a.action, a.entry -> 'actor' ->> 'name' as by
        from audit_log a
        where a.target_id = n.subject_id and a.at >= n.since collate "C" and a.at <= n.until collate "C"
          and a.action in (select json_array_elements_text($2))
        order by a.number desc
        limit 1
      ) c`,
    values: [JSON.stringify(issues), JSON.stringify(actions)],
  });
}

/** Adds outages; those that are stored already are skipped. */
export async function addOutages({ query }: Queries, outages: readonly Outage[]): Promise<void> {
  await query({
    text: `
      insert into issues (id, kind, subject_id, part, first_at, last_at, count, facts, resolved_at)
      select id, 'database', machine, '', began_at, ended_at, refused + spooled,
        json_build_object('name', machine, 'refused', refused, 'spooled', spooled), ended_at
      from json_to_recordset($1) as o (id uuid, machine text, began_at timestamptz, ended_at timestamptz, refused float8, spooled float8)
      on conflict (id) do nothing`,
    values: [JSON.stringify(outages)],
  });
}

/** Reads the outages that overlap a time span, newest first. @param fromMs Unix milliseconds, like `toMs` */
export function readOutages({ query }: Queries, fromMs: number, toMs: number, limit: number): Promise<Outage[]> {
  return query<Outage>({
    text: `
      select i.id, i.subject_id as machine, ${isoText('i.first_at')} as began_at, ${isoText('i.resolved_at')} as ended_at,
        coalesce((i.facts ->> 'refused')::float8, 0) as refused, coalesce((i.facts ->> 'spooled')::float8, 0) as spooled
      from issues i where i.kind = 'database' and i.resolved_at >= $1 and i.first_at < $2
      order by i.first_at desc, i.id
      limit $3`,
    values: [new Date(fromMs).toISOString(), new Date(toMs).toISOString(), limit],
  });
}
