/** /agents: the list, the forms, and all changes to an agent; the page of one agent is in agent.ts. */

import { DAY_MS } from '../../base/time/durations.ts';
import { agentFields, agentForm } from '../../model/agents.ts';
import { agentActivity } from '../activity.ts';
import { stripOf } from '../charts/strip.ts';
import { readOutagesSince } from '../charts/traffic.ts';
import { agentState } from '../flow/state.ts';
import { inputOf, shownParts } from '../forms/fields.ts';
import {
  basis,
  confirmation,
  confirmationError,
  field,
  filtersOf,
  formErrors,
  list,
  noErrors,
  number,
  withVersion,
} from '../forms/form.ts';
import { choicesOf, idsOf, isId, namesOf, withIds } from '../names.ts';
import {
  action,
  asProblem,
  type FormFeedback,
  formView,
  itemsOf,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  redirect,
  view,
} from '../page.ts';
import { address } from '../show.ts';
import { agentView, readWork } from './agent.ts';

const agentList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['q', 'revoked', 'cursor']);
  const listed = await call('listAgents', { query: { revoked: 'false', ...filters } });
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const ids = list.page.items.map(({ id }) => id);
  const now = Date.now();
  const [webhooks, activity, outages] = await Promise.all([
    namesOf(
      call,
      'webhooks',
      list.page.items.flatMap(({ first_webhook_ids }) => first_webhook_ids),
    ),
    agentActivity(call, ids),
    readOutagesSince(call, now - DAY_MS),
  ]);
  const stripOfAgent = (agent_id: string) =>
    stripOf({
      quarters: activity[agent_id]?.quarters,
      words: { acknowledged: 'acknowledged', failed: 'failed' },
      trouble: 'failures',
      hrefOf: (from, to) => address('/deliveries', { agent_id, from, to }),
      outages,
      nowMs: now,
    });
  const strips = Object.fromEntries(ids.map((id) => [id, stripOfAgent(id)]));
  return view('agents/list', 'Agents', { filters, ...list, webhooks, activity, strips, agentState, now });
};

/** `webhook_id` of the address: the webhook from whose page the user came. */
const newAgent: Page = (request) => {
  const webhookIds = request.query.getAll('webhook_id').filter(isId);
  return editView(request, 'New agent', { webhook_ids: webhookIds }, noErrors);
};

const createAgent: Page = async (request) => {
  const input = agentOf(request.form);
  const created = await withIds(request.call, 'webhooks', 'webhook_ids', input, (found) =>
    request.call('createAgent', { input: { ...found, ...confirmation(request.form) } }),
  );
  if (created.kind !== 'done')
    return editView(request, 'New agent', input, formErrors(created, { name_taken: 'name', ...confirmationError() }));
  // Shown only in this response: a redirect would have to store the credential.
  return agentView(
    request,
    created.body,
    { credential: created.body.credential },
    {
      address: `/agents/${created.body.id}`,
      once: true,
    },
  );
};

const showAgent: Page = async (request) => {
  const { call, id } = request;
  const [agent, work] = await Promise.all([call('showAgent', { id }), readWork(call, id)]);
  return agent.kind === 'done' ? agentView(request, agent.body, {}, {}, work) : asProblem(agent);
};

const editAgent = action('showAgent', async ({ body: agent, text }, request) => {
  const { call, id } = request;
  // Read after the agent, so that its version reveals a change in between.
  const listed = itemsOf(await call('listAgentWebhooks', { id, query: { limit: String(CHOSEN_MAX) } }));
  const webhook_ids = listed.next_cursor === null ? listed.items.map(({ webhook_id }) => webhook_id) : undefined;
  return editView(request, `Edit ${agent.name}`, { ...agent, webhook_ids, was: text }, noErrors);
});

const updateAgent: Page = async (request) => {
  const { call, id, form } = request;
  const input = agentOf(form);
  const updated = await withIds(call, 'webhooks', 'webhook_ids', input, (found) =>
    call('updateAgent', { id, input: found, ...basis(form) }),
  );
  if (updated.kind === 'done') return redirect(`/agents/${id}`, 'saved');
  const { was, refused } = await withVersion(form, updated, () => call('showAgent', { id }));
  return editView(request, 'Edit the agent', { ...input, id, was }, formErrors(refused, { name_taken: 'name' }));
};

const pauseAgent = action(
  'updateAgent',
  ({ body }, { id }) => redirect(`/agents/${id}`, body.paused ? 'paused' : 'resumed'),
  ({ form }) => ({ input: { paused: form.get('paused') === 'true' } }),
);

const rotateAgent = action('showAgent', async ({ body: agent }, request) => {
  const { call, id, form } = request;
  const input = { overlap_seconds: number(form, 'overlap_seconds') ?? 0, ...confirmation(form) };
  const rotated = await call('rotateAgent', { id, input });
  if (rotated.kind === 'done')
    return agentView(request, rotated.body, { credential: rotated.body.credential }, { once: true });
  // The form has the error, so that the password can be given again.
  const { errors, ...feedback } = formErrors(rotated, confirmationError('rotate'));
  return agentView(request, agent, { errors, overlap: field(form, 'overlap_seconds') }, feedback);
});

const revokeAgent = action('showAgent', async ({ body: agent }, request) => {
  const { call, id } = request;
  const revoked = await call('revokeAgent', { id, name: agent.name });
  if (revoked.kind === 'problem') return revoked;
  if (revoked.kind === 'invalid') return agentView(request, agent, { errors: revoked.errors }, { status: 422 });
  const counted = await call('countDeliveries', { query: { agent_id: id } });
  const isLeft = counted.kind === 'done' && counted.body.pending + counted.body.leased > 0;
  // The page of the agent asks what to do with the deliveries that are left.
  return redirect(isLeft ? `/agents/${id}` : '/agents', 'revoked');
});

/** Makes all dead letters of the agent pending again. */
const replayDeadOfAgent = action(
  'replayDeliveries',
  ({ body: { replayed, more } }, { id }) =>
    redirect(`/agents/${id}?count=${replayed}`, more ? 'dead-replayed-in-part' : 'dead-replayed'),
  ({ id }) => ({ input: { agent_id: id, state: 'dead' } }),
);

/** Dismisses what a revoked agent left, or moves it to the chosen agent. */
const settleUndelivered = action('showAgent', async ({ body: agent }, request) => {
  const { call, id, form } = request;
  const isMove = form.get('do') === 'move';
  const named = field(form, 'to_agent_id');
  const found = !isMove
    ? { ids: [] }
    : named === ''
      ? { error: 'Choose an agent.' }
      : await idsOf(call, 'agents', [named]);
  if ('error' in found)
    return agentView(request, agent, { errors: { to_agent_id: found.error }, target: named }, { status: 422 });
  const settled = await call('settleUndelivered', { id, input: { to_agent_id: found.ids[0] ?? null } });
  if (settled.kind !== 'done') return asProblem(settled);
  const notice = `undelivered-${isMove ? 'moved' : 'dismissed'}${settled.body.more ? '-in-part' : ''}` as const;
  return redirect(`/agents/${id}?count=${settled.body.settled}`, notice);
});

export const agentPages = {
  agentList,
  newAgent,
  createAgent,
  showAgent,
  editAgent,
  updateAgent,
  pauseAgent,
  rotateAgent,
  revokeAgent,
  replayDeadOfAgent,
  settleUndelivered,
};

/** `webhook_ids` is absent if the agent has too many webhooks to choose them in a form. */
type AgentValues = { webhook_ids?: string[] | undefined; [member: string]: unknown };

/** Webhooks of an agent that its form lists: a page of the list. */
const CHOSEN_MAX = 200;

async function editView(
  { call }: PageRequest,
  title: string,
  values: AgentValues,
  feedback: FormFeedback,
): Promise<PageReply> {
  const parts = shownParts(agentFields, agentForm, { values, errors: feedback.errors });
  // List all subscribed webhooks: a missing checkbox would end the subscription.
  const webhooks = values.webhook_ids === undefined ? null : await choicesOf(call, 'webhooks', values.webhook_ids);
  return formView('agents/form', title, { title, values, parts, webhooks }, feedback);
}

function agentOf(form: URLSearchParams): AgentValues {
  const { webhook_ids: _, ...input } = inputOf(agentFields, agentForm, form);
  return form.has('keep_webhooks') ? input : { ...input, webhook_ids: list(form, 'webhook_ids') };
}
