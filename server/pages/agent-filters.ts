/** /agents/ID/filter: the form for the filter of one subscription, which tries it on stored events. */
import type { Success } from '../api/operation.ts';
import type { Operations } from '../api/operations.ts';
import { field } from './form.ts';
import { formErrors } from './form-errors.ts';
import { isId, namesOf } from './names.ts';
import { asProblem, type Page, type PageReply, type PageRequest, redirect, view } from './page.ts';

type Agent = Success<Operations['showAgent']['answers']>['body'];
type Tried = Success<Operations['testFilter']['answers']>['body'];

const editFilter: Page = async (request) => {
  const webhookId = request.query.get('webhook_id') ?? '';
  return withSubscription(request, webhookId, (agent, filter) => formView(request, agent, webhookId, { filter }));
};

/** The button Try shows the form again, with what the filter would do. */
const updateFilter: Page = async (request) => {
  const { call, id, form } = request;
  const webhookId = field(form, 'webhook_id');
  return withSubscription(request, webhookId, async (agent) => {
    const filter = field(form, 'filter');
    if (form.has('try')) {
      const tried = await call('testFilter', { input: { webhook_id: webhookId, filter } });
      if (tried.kind === 'done') return formView(request, agent, webhookId, { filter, tried: tried.body });
      const { errors, ...status } = formErrors(tried, {});
      return formView(request, agent, webhookId, { filter, errors }, status);
    }
    const input = { filter: filter === '' ? null : filter };
    const saved = await call('setSubscription', { id, innerId: webhookId, input });
    if (saved.kind === 'done') return redirect(`/agents/${id}`, 'saved');
    const { errors, ...status } = formErrors(saved, {});
    return formView(request, agent, webhookId, { filter, errors }, status);
  });
};

export const agentFilterPages = { editFilter, updateFilter };

/** Calls `work` if the agent is subscribed to the webhook; else the page is not found. */
async function withSubscription(
  { call, id }: PageRequest,
  webhookId: string,
  work: (agent: Agent, filter: string) => Promise<PageReply>,
): Promise<PageReply> {
  const agent = await call('showAgent', { id });
  if (agent.kind !== 'done') return asProblem(agent);
  const subscription = agent.body.subscriptions.find((one) => one.webhook_id === webhookId);
  if (!isId(webhookId) || subscription === undefined) return redirect(`/agents/${id}`);
  return work(agent.body, subscription.filter ?? '');
}

interface Shown {
  filter: string;
  tried?: Tried;
  errors?: Record<string, string>;
}

async function formView(
  { call }: PageRequest,
  agent: Agent,
  webhookId: string,
  { filter, tried, errors = {} }: Shown,
  status: { status?: number } = {},
): Promise<PageReply> {
  const webhooks = await namesOf(call, 'listWebhooks', [webhookId]);
  const webhook = webhooks[webhookId] ?? webhookId;
  const shown = { agent, webhookId, webhook, filter, tried, errors };
  return view('agents/filter', `Filter of ${agent.name}`, shown, status);
}
