/** /issues: what needs a person, who looks after it, and what was resolved. */
import { recordOf } from '../../base/http/record.ts';
import { DAY_MS, HOUR_MS } from '../../base/time/durations.ts';
import { actionOf } from '../../model/conditions.ts';
import { type Issue, issueStates } from '../../model/issues.ts';
import type { Role } from '../../model/users.ts';
import { sparkFrame, sparkOf } from '../charts/chart.ts';
import { field, filtersOf, optional } from '../forms/form.ts';
import { asProblem, listOf, type Page, redirect, view } from '../page.ts';

const spans = recordOf([
  ['1h', { text: '1 hour', ms: HOUR_MS }],
  ['1d', { text: '1 day', ms: DAY_MS }],
  ['7d', { text: '7 days', ms: 7 * DAY_MS }],
]);

/** The link to a page of Weir as a path, and the lowest role that can open it. @param url with PUBLIC_URL */
export function ownPage(url: string): { href: string; role: Role } {
  const { pathname, search, hash } = new URL(url);
  return { href: `${pathname}${search}${hash}`, role: pathname === '/status' ? 'operator' : 'viewer' };
}

function shownIssue(issue: Issue) {
  return {
    ...issue,
    ...ownPage(issue.url),
    title: issue.title.replace(/\.$/, ''),
    action: actionOf(issue.kind),
    spark: sparkOf(issue.hours),
    sparkFrame,
  };
}

/** The issues as pages show them, critical ones first, else in the same order. */
export function worstFirst(issues: readonly Issue[]) {
  return issues.map(shownIssue).sort((one, other) => rank(other) - rank(one));
}
const rank = ({ severity }: Pick<Issue, 'severity'>) => Number(severity === 'critical');

const issueList: Page = async ({ call, query }) => {
  const { state = 'open', ...filters } = filtersOf(query, ['state', 'subject_id', 'kind', 'cursor']);
  const listed = await call('listIssues', { query: { ...filters, state } });
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const issues = worstFirst(list.page.items);
  return view('issues', 'Issues', { ...list, issues, state, filters, states: issueStates, spans, now: Date.now() });
};

/** The form has all members. `keep` leaves the snooze as it is. `mine` is the button that assigns the issue to the user. */
const updateIssue: Page = async ({ call, id, form }) => {
  const span = spans[field(form, 'snooze')];
  const snooze = field(form, 'snooze') === 'none' ? null : span && new Date(Date.now() + span.ms).toISOString();
  const input = {
    assignee: optional(form, 'mine') ?? optional(form, 'assignee'),
    note: optional(form, 'note'),
    ...(snooze === undefined ? {} : { snoozed_until: snooze }),
  };
  const updated = await call('updateIssue', { id, input });
  if (updated.kind !== 'done') return asProblem(updated);
  const { state } = updated.body;
  return redirect(state === 'open' ? '/issues' : `/issues?state=${state}`, 'saved');
};

export const issuePages = { issueList, updateIssue };
