/**
 * The subscriptions of an agent: /agents/ID/webhooks lists and changes them; /agents/ID/filter is the form of one, with filter and order
 * tried on stored events.
 */

import type { BodyOf } from '../../manage/api/operations.ts';
import { basis, field, fieldError, filtersOf, formErrors, list, noErrors, withVersion } from '../forms/form.ts';
import { choicesOf, idsOf, isId, namesOf } from '../names.ts';
import {
  asProblem,
  formView,
  itemsOf,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  partOf,
  redirect,
  view,
} from '../page.ts';
import { address } from '../show.ts';

type Agent = BodyOf<'showAgent'>;

const agentWebhooks: Page = (request) => listView(request);

/** Ends the subscription `end`, or adds the webhook that is named. */
const changeWebhooks: Page = async (request) => {
  const { call, id, form } = request;
  const here = `/agents/${id}/webhooks`;
  if (form.has('end')) {
    const ended = await call('endSubscription', { id, innerId: field(form, 'end') });
    return ended.kind === 'done' ? redirect(here, 'saved') : asProblem(ended);
  }
  const found = await idsOf(call, 'webhooks', [field(form, 'add')]);
  if ('error' in found) return listView(request, { add: found.error });
  const [innerId] = found.ids;
  const added = await call('setSubscription', { id, innerId: innerId!, input: {} });
  return added.kind === 'done' ? redirect(address(here, { webhook_id: innerId }), 'saved') : asProblem(added);
};

/** @param refused error of the form that adds a webhook */
async function listView({ call, id, query, form }: PageRequest, refused?: { add: string }): Promise<PageReply> {
  const filters = filtersOf(query, ['webhook_id', 'filtered', 'cursor']);
  const agent = await call('showAgent', { id });
  if (agent.kind !== 'done') return asProblem(agent);
  const named = filters.webhook_id === undefined ? { ids: [] } : await idsOf(call, 'webhooks', [filters.webhook_id]);
  const listed =
    'error' in named
      ? ({ kind: 'invalid', errors: { webhook_id: named.error } } as const)
      : await call('listAgentWebhooks', { id, query: { ...filters, webhook_id: named.ids[0] } });
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const choices = await choicesOf(call, 'webhooks');
  const errors = refused ?? list.errors;
  const shown = { agent: agent.body, filters, ...list, errors, choices, add: field(form, 'add') };
  return view('agents/webhooks', `Webhooks of ${agent.body.name}`, shown, refused && { status: 422 });
}

const editFilter: Page = async (request) => {
  const webhookId = request.query.get('webhook_id') ?? '';
  return withSubscription(request, webhookId, (agent, stored) => filterView(request, agent, webhookId, stored));
};

/** The button Try shows the form again, with what the filter would do. */
const updateFilter: Page = async (request) => {
  const { call, id, form } = request;
  const webhookId = field(form, 'webhook_id');
  return withSubscription(request, webhookId, async (agent) => {
    const [filter, order_by] = [field(form, 'filter'), field(form, 'order_by').trim()];
    const given = { filter, order_by, was: form.get('was') };
    // The expression for the chosen types, which is then tried, edited or saved.
    if (form.has('write'))
      return filterView(request, agent, webhookId, { ...given, filter: filterOfTypes(list(form, 'type')) });
    if (form.has('try')) {
      if (filter.trim() === '' && order_by === '')
        return filterView(
          request,
          agent,
          webhookId,
          given,
          fieldError('filter', 'Enter an expression or a key to try.'),
        );
      const input = { webhook_id: webhookId, ...(filter.trim() && { filter }), ...(order_by && { order_by }) };
      const tried = await call('testFilter', { input });
      if (tried.kind === 'done') return filterView(request, agent, webhookId, { ...given, tried: tried.body });
      return filterView(request, agent, webhookId, given, formErrors(tried));
    }
    // A form without the field leaves the order as it is.
    const input = { filter: filter || null, ...(form.has('order_by') && { order_by: order_by || null }) };
    const saved = await call('setSubscription', { id, innerId: webhookId, input, ...basis(form) });
    if (saved.kind === 'done') return redirect(`/agents/${id}`, 'saved');
    const next = await withVersion(form, saved, () => call('showAgent', { id }));
    return filterView(request, agent, webhookId, { ...given, was: next.was }, formErrors(next.refused));
  });
};

export const subscriptionPages = { agentWebhooks, changeWebhooks, editFilter, updateFilter };

/** Calls `work` if the agent is subscribed to the webhook; else redirects to the page of the agent. */
async function withSubscription(
  { call, id }: PageRequest,
  webhookId: string,
  work: (agent: Agent, stored: { filter: string; order_by: string; was: string }) => Promise<PageReply>,
): Promise<PageReply> {
  const agent = await call('showAgent', { id });
  if (agent.kind !== 'done') return asProblem(agent);
  // Read after the agent, so that its version reveals a change in between.
  const found = itemsOf(await call('listAgentWebhooks', { id, query: { webhook_id: webhookId } }));
  const subscription = found.items[0];
  if (!isId(webhookId) || subscription === undefined) return redirect(`/agents/${id}`);
  return work(agent.body, {
    filter: subscription.filter ?? '',
    order_by: subscription.order_by ?? '',
    was: agent.text,
  });
}

const TYPES_EXPRESSION = /^event_type in (\[.*\])$/s;

/** The expression that is true for these types; '' for none of them. */
export function filterOfTypes(types: readonly string[]): string {
  return types.length === 0 ? '' : `event_type in [${types.map((type) => JSON.stringify(type)).join(', ')}]`;
}

/** The types of an expression that has the form of `filterOfTypes`; none for any other expression. */
export function typesOfFilter(filter: string): string[] {
  const [, list] = TYPES_EXPRESSION.exec(filter.trim()) ?? [];
  try {
    const types: unknown = JSON.parse(list ?? '[]');
    return Array.isArray(types) ? types.filter((type) => typeof type === 'string') : [];
  } catch {
    return [];
  }
}

interface Shown {
  filter: string;
  order_by: string;
  /** Version of the agent that the form was rendered from. */
  was: string | null;
  tried?: BodyOf<'testFilter'>;
}

async function filterView(
  { call }: PageRequest,
  agent: Agent,
  webhookId: string,
  given: Shown,
  feedback = noErrors,
): Promise<PageReply> {
  const [webhooks, types] = await Promise.all([
    namesOf(call, 'webhooks', [webhookId]),
    partOf(call('listEventTypes', { id: webhookId })),
  ]);
  const webhook = webhooks[webhookId] ?? webhookId;
  const shown = { ...given, agent, webhookId, webhook, types, chosen: typesOfFilter(given.filter) };
  return formView('agents/filter', `Filter and order of ${webhook} for ${agent.name}`, shown, feedback);
}
