/** /agents: the list, the forms, and all changes to an agent; the page of one agent is in agent.ts. */

import { DAY_MS } from '../../base/time/durations.ts';
import { agentFields, agentForm } from '../../model/agents.ts';
import { agentActivity } from '../activity.ts';
import { readOutagesSince } from '../charts/outage-list.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { inputOf, shownParts } from '../forms/fields.ts';
import { filtersOf } from '../forms/filters.ts';
import { basis, confirmation, confirmationError, field, list, number, withVersion } from '../forms/form.ts';
import { choicesOf, idsOf, isId, namesOf, searchedChoices, withIds } from '../names.ts';
import { asProblem, itemsOf, listOf, type Page, type PageReply, type PageRequest, redirect, view } from '../page.ts';
import { agentView, readWork } from './agent.ts';
import { agentState } from './state.ts';
import { agentStrip } from './strip.ts';

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
  const strips = Object.fromEntries(ids.map((id) => [id, agentStrip(activity[id], outages, now)]));
  return view('agents/list', 'Agents', { filters, ...list, webhooks, activity, strips, agentState, now });
};

/** `webhook_id` of the address: the webhook from whose page the user came. */
const newAgent: Page = (request) => {
  const webhookIds = request.query.getAll('webhook_id').filter(isId);
  return formView(request, 'New agent', { webhook_ids: webhookIds }, noErrors);
};

const createAgent: Page = async (request) => {
  const input = agentOf(request.form);
  if (isSearch(request.form, input)) return formView(request, 'New agent', input, noErrors);
  const created = await withIds(request.call, 'webhooks', 'webhook_ids', input, (found) =>
    request.call('createAgent', { input: { ...found, ...confirmation(request.form) } }),
  );
  if (created.kind !== 'done')
    return formView(request, 'New agent', input, formErrors(created, { name_taken: 'name', ...confirmationError() }));
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

const editAgent: Page = async (request) => {
  const { call, id } = request;
  const agent = await call('showAgent', { id });
  if (agent.kind !== 'done') return asProblem(agent);
  // After the agent: a change in between is noticed by the version.
  const listed = itemsOf(await call('listAgentWebhooks', { id, query: { limit: String(CHOSEN_MAX) } }));
  const webhook_ids = listed.next_cursor === null ? listed.items.map(({ webhook_id }) => webhook_id) : undefined;
  return formView(request, `Edit ${agent.body.name}`, { ...agent.body, webhook_ids, was: agent.text }, noErrors);
};

const updateAgent: Page = async (request) => {
  const { call, id, form } = request;
  const input = agentOf(form);
  if (isSearch(form, input))
    return formView(request, 'Edit the agent', { ...input, id, was: form.get('was') }, noErrors);
  const updated = await withIds(call, 'webhooks', 'webhook_ids', input, (found) =>
    call('updateAgent', { id, input: found, ...basis(form) }),
  );
  if (updated.kind === 'done') return redirect(`/agents/${id}`, 'saved');
  const { was, refused } = await withVersion(form, updated, () => call('showAgent', { id }));
  return formView(request, 'Edit the agent', { ...input, id, was }, formErrors(refused, { name_taken: 'name' }));
};

const pauseAgent: Page = async ({ call, id, form }) => {
  const paused = form.get('paused') === 'true';
  const updated = await call('updateAgent', { id, input: { paused } });
  return updated.kind === 'done' ? redirect(`/agents/${id}`, paused ? 'paused' : 'resumed') : asProblem(updated);
};

const rotateAgent: Page = async (request) => {
  const input = { overlap_seconds: number(request.form, 'overlap_seconds') ?? 0, ...confirmation(request.form) };
  const rotated = await request.call('rotateAgent', { id: request.id, input });
  if (rotated.kind !== 'done') return refusedRotation(request, rotated);
  return agentView(request, rotated.body, { credential: rotated.body.credential }, { once: true });
};

/** The page of the agent with the error in the form, where the password can be given again. */
async function refusedRotation(request: PageRequest, refused: Parameters<typeof formErrors>[0]): Promise<PageReply> {
  const agent = await request.call('showAgent', { id: request.id });
  if (agent.kind !== 'done') return asProblem(refused);
  const { errors, ...feedback } = formErrors(refused, confirmationError('rotate'));
  return agentView(request, agent.body, { errors, overlap: field(request.form, 'overlap_seconds') }, feedback);
}

const revokeAgent: Page = async (request) => {
  const { call, id } = request;
  const agent = await call('showAgent', { id });
  if (agent.kind !== 'done') return asProblem(agent);
  const revoked = await call('revokeAgent', { id, name: agent.body.name });
  if (revoked.kind === 'problem') return revoked;
  if (revoked.kind === 'invalid') return agentView(request, agent.body, { errors: revoked.errors }, { status: 422 });
  const counted = await call('countDeliveries', { query: { agent_id: id } });
  const isLeft = counted.kind === 'done' && counted.body.pending + counted.body.leased > 0;
  // Its page asks what to do with what is left.
  return redirect(isLeft ? `/agents/${id}` : '/agents', 'revoked');
};

/** Makes all dead letters of the agent, or those of one webhook, pending again. */
const replayDeadOfAgent: Page = async ({ call, id, form }) => {
  const webhookId = field(form, 'webhook_id');
  const input = { agent_id: id, state: 'dead', ...(webhookId === '' ? {} : { webhook_id: webhookId }) };
  const replayed = await call('replayDeliveries', { input });
  if (replayed.kind !== 'done') return asProblem(replayed);
  const notice = replayed.body.more ? 'dead-replayed-in-part' : 'dead-replayed';
  return redirect(`/agents/${id}?count=${replayed.body.replayed}`, notice);
};

/** Dismisses what a revoked agent left, or moves it to the chosen agent. */
const settleUndelivered: Page = async (request) => {
  const { call, id, form } = request;
  const isMove = form.get('do') === 'move';
  const named = field(form, 'to_agent_id');
  const found = !isMove
    ? { ids: [] }
    : named === ''
      ? { error: 'Choose an agent.' }
      : await idsOf(call, 'agents', [named]);
  if ('error' in found) {
    const agent = await call('showAgent', { id });
    if (agent.kind !== 'done') return asProblem(agent);
    return agentView(request, agent.body, { errors: { to_agent_id: found.error } }, { status: 422 });
  }
  const settled = await call('settleUndelivered', { id, input: { to_agent_id: found.ids[0] ?? null } });
  if (settled.kind !== 'done') return asProblem(settled);
  const notice = `undelivered-${isMove ? 'moved' : 'dismissed'}${settled.body.more ? '-in-part' : ''}` as const;
  return redirect(`/agents/${id}?count=${settled.body.settled}`, notice);
};

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

/** Without webhook_ids: the agent has too many to choose them in a form. */
type AgentValues = { webhook_ids?: string[] | undefined; [member: string]: unknown };

/** Webhooks of an agent that its form lists: a page of the list. */
const CHOSEN_MAX = 200;

async function formView(
  { call, form }: PageRequest,
  title: string,
  values: AgentValues,
  feedback: FormFeedback,
): Promise<PageReply> {
  const { errors, ...status } = feedback;
  const parts = shownParts(agentFields, agentForm, { values, errors });
  if (values.webhook_ids === undefined)
    return view('agents/form', title, { title, values, errors, parts, webhooks: null }, status);
  const chosen = values.webhook_ids.filter(isId);
  const search = form.has('find') ? typedIn(values.webhook_ids) : undefined;
  // List all subscribed webhooks: a missing checkbox would end the subscription.
  const webhooks =
    search === undefined
      ? await choicesOf(call, 'webhooks', values.webhook_ids)
      : await searchedChoices(call, 'webhooks', search, chosen);
  const found = 'found' in webhooks ? webhooks.found : null;
  return view('agents/form', title, { title, values, errors, parts, webhooks, search, found }, status);
}

/** Enter in another field presses the first button of the form, which is Search: without a text to search for, the form is saved. */
function isSearch(form: URLSearchParams, { webhook_ids }: AgentValues): boolean {
  return form.has('find') && typedIn(webhook_ids) !== undefined;
}

function typedIn(ids: readonly string[] = []): string | undefined {
  return ids.map((text) => text.trim()).find((text) => text !== '' && !isId(text));
}

function agentOf(form: URLSearchParams): AgentValues {
  const { webhook_ids: _, ...input } = inputOf(agentFields, agentForm, form);
  return form.has('keep_webhooks') ? input : { ...input, webhook_ids: list(form, 'webhook_ids') };
}
