/** /agents/ID/filter: the form for the filter of one subscription, which tries it on stored events. */
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { fieldError, formErrors } from '../forms/errors.ts';
import { basis, field, list, withVersion } from '../forms/form.ts';
import { isId, namesOf } from '../names.ts';
import { asProblem, type Page, type PageReply, type PageRequest, partOf, redirect, view } from '../page.ts';

type Agent = Success<Operations['showAgent']['answers']>['body'];
type Tried = Success<Operations['testFilter']['answers']>['body'];

const editFilter: Page = async (request) => {
  const webhookId = request.query.get('webhook_id') ?? '';
  return withSubscription(request, webhookId, (agent, { filter, was }) =>
    formView(request, agent, webhookId, { filter, was }),
  );
};

/** The button Try shows the form again, with what the filter would do. */
const updateFilter: Page = async (request) => {
  const { call, id, form } = request;
  const webhookId = field(form, 'webhook_id');
  return withSubscription(request, webhookId, async (agent) => {
    const filter = field(form, 'filter');
    const was = form.get('was');
    // The expression for the chosen types, which is then tried, edited or saved.
    if (form.has('write'))
      return formView(request, agent, webhookId, { filter: filterOfTypes(list(form, 'type')), was });
    if (form.has('try')) {
      if (filter.trim() === '') {
        const { errors, ...status } = fieldError('filter', 'Enter an expression to try.');
        return formView(request, agent, webhookId, { filter, was, errors }, status);
      }
      const tried = await call('testFilter', { input: { webhook_id: webhookId, filter } });
      if (tried.kind === 'done') return formView(request, agent, webhookId, { filter, was, tried: tried.body });
      const { errors, ...status } = formErrors(tried);
      return formView(request, agent, webhookId, { filter, was, errors }, status);
    }
    const input = { filter: filter === '' ? null : filter };
    const saved = await call('setSubscription', { id, innerId: webhookId, input, ...basis(form) });
    if (saved.kind === 'done') return redirect(`/agents/${id}`, 'saved');
    const next = await withVersion(form, saved, () => call('showAgent', { id }));
    const { errors, ...status } = formErrors(next.refused);
    return formView(request, agent, webhookId, { filter, was: next.was, errors }, status);
  });
};

export const agentFilterPages = { editFilter, updateFilter };

/** Calls `work` if the agent is subscribed to the webhook; else the page is not found. */
async function withSubscription(
  { call, id }: PageRequest,
  webhookId: string,
  work: (agent: Agent, stored: { filter: string; was: string }) => Promise<PageReply>,
): Promise<PageReply> {
  const agent = await call('showAgent', { id });
  if (agent.kind !== 'done') return asProblem(agent);
  const subscription = agent.body.subscriptions.find((one) => one.webhook_id === webhookId);
  if (!isId(webhookId) || subscription === undefined) return redirect(`/agents/${id}`);
  return work(agent.body, { filter: subscription.filter ?? '', was: agent.text });
}

const TYPES_EXPRESSION = /^event_type in (\[.*\])$/s;

/** The expression that is true for these types; '' for none of them. */
export function filterOfTypes(types: readonly string[]): string {
  return types.length === 0 ? '' : `event_type in [${types.map((type) => JSON.stringify(type)).join(', ')}]`;
}

/** The types of an expression as filterOfTypes writes it; none for another one. */
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
  /** Version of the agent that the form was rendered from. */
  was: string | null;
  tried?: Tried;
  errors?: Record<string, string>;
}

async function formView(
  { call }: PageRequest,
  agent: Agent,
  webhookId: string,
  { filter, was, tried, errors = {} }: Shown,
  status: { status?: number } = {},
): Promise<PageReply> {
  const [webhooks, types] = await Promise.all([
    namesOf(call, 'webhooks', [webhookId]),
    partOf(call('listEventTypes', { id: webhookId })),
  ]);
  const webhook = webhooks[webhookId] ?? webhookId;
  const shown = { agent, webhookId, webhook, filter, was, tried, errors, types, chosen: typesOfFilter(filter) };
  return view('agents/filter', `Filter of ${webhook} for ${agent.name}`, shown, status);
}

/** Subscriptions on the page of an agent. */
const SUBSCRIPTIONS_SHOWN = 100;

/** The subscriptions that the page of an agent shows: of more than SUBSCRIPTIONS_SHOWN, those with a filter first. */
export function shownSubscriptions<One extends { filter: string | null }>(all: readonly One[]): readonly One[] {
  if (all.length <= SUBSCRIPTIONS_SHOWN) return all;
  const [filtered, others] = [true, false].map((is) => all.filter(({ filter }) => (filter !== null) === is));
  return [...filtered!, ...others!].slice(0, SUBSCRIPTIONS_SHOWN);
}
