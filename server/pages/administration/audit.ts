/** /audit: the list of actions, one entry with its changes, and verification of the log. */

import { problem } from '../../base/http/problem.ts';
import { auditKinds } from '../../store/audit/record.ts';
import { verbOf } from '../charts/traffic.ts';
import { differences, filtersOf } from '../forms/form.ts';
import { asProblem, itemsOf, listOf, type Page, view } from '../page.ts';

/** Actions by prefix, as tabs of the list. Sign-ins are as many as all changes, so they have a tab of their own. */
const presets = {
  '!session.': 'Changes',
  'session.': 'Sign-ins',
  'webhook.': 'Webhooks',
  'agent.': 'Agents',
  'user.': 'Users',
  'token.': 'Tokens',
};
const usual = '!session.' satisfies keyof typeof presets;

const auditList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['action', 'actor_id', 'target_id', 'from', 'to', 'cursor']);
  const asked = { action: usual, ...filters, from: inUtc(filters.from), to: inUtc(filters.to) };
  const [listed, users] = await Promise.all([
    call('listAudit', { query: asked }),
    call('listUsers', { query: { limit: '200' } }),
  ]);
  if (listed.kind === 'problem') return listed;
  const people = new Map<string, string>(itemsOf(users).items.map((user) => [user.id, user.email]));
  // A user who is deleted or not on the first page of users is shown by the name in the audit entries.
  const { actor_id: id } = filters;
  const list = listOf(listed);
  if (id !== undefined && !people.has(id)) people.set(id, list.page.items[0]?.actor?.name ?? id);
  return view('audit/list', 'Audit', {
    filters,
    asked,
    ...list,
    people: [...people],
    kinds: auditKinds,
    presets,
    verbOf,
  });
};

/** Lists with the cursor entry + 2: the first two items are the entry's successor and the entry. */
const showAuditEntry: Page = async ({ call, id }) => {
  const unknown = problem('not_found', 'The audit log has no entry with this number.');
  if (!/^[1-9]\d{0,13}$/.test(id)) return unknown;
  const list = await call('listAudit', { query: { cursor: String(Number(id) + 2), limit: '2' } });
  if (list.kind !== 'done') return asProblem(list);
  const numbered = (number: number) => list.body.items.find((entry) => entry.number === number);
  const entry = numbered(Number(id));
  if (entry === undefined) return unknown;
  const hasNext = numbered(entry.number + 1) !== undefined;
  const title = `Entry ${entry.number}: ${entry.action ?? 'unreadable'}`;
  return view('audit/show', title, { entry, hasNext, differences: differences(entry.before, entry.after) });
};

const verifyAudit: Page = async ({ call, query }) => {
  const { head } = filtersOf(query, ['head']);
  const verified = await call('verifyAudit', { query: { head } });
  if (verified.kind === 'problem') return verified;
  const [verdict, errors] = verified.kind === 'done' ? [verified.body, {}] : [null, verified.errors];
  return view(
    'audit/verify',
    'Verify the audit log',
    { head, verdict, errors },
    { status: verdict === null ? 422 : 200 },
  );
};

export const auditPages = { auditList, showAuditEntry, verifyAudit };

/** Time fields of the form have no time zone. They are labelled UTC and read as UTC. */
function inUtc(time: string | undefined): string | undefined {
  if (time === undefined || !/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(time)) return time;
  return `${time.padEnd(19, ':00')}Z`;
}
