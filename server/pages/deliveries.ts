/** /deliveries: the list, dead letters by reason, one delivery with its attempts, and their replay and dismissal. */

import type { Call } from './call.ts';
import { filtersOf } from './filters.ts';
import { field } from './form.ts';
import { choicesOf, listBy, namesOf } from './names.ts';
import { asProblem, listOf, type Page, type PageRequest, redirect, view } from './page.ts';
import { address } from './show.ts';

const filterNames = ['state', 'agent_id', 'webhook_id', 'event_id', 'cursor'] as const;
type Filters = ReturnType<typeof filtersOf<(typeof filterNames)[number] | 'reason'>>;

const deliveryList: Page = async ({ call, query }) => {
  const reason = query.get('reason');
  // Not trimmed: an agent may give a reason with spaces around it.
  const given: Filters = { ...filtersOf(query, filterNames), ...(reason ? { reason, state: 'dead' } : {}) };
  const { filters, listed } = await listBy(call, 'listDeliveries', given);
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const dead = listed.kind === 'done' ? await deadGroups(call, filters) : {};
  const named = dead.groups?.items.flatMap((group) => group.agent_ids) ?? [];
  const [agents, webhooks] = await Promise.all([
    choicesOf(call, 'listAgents', [...list.page.items.map((one) => one.agent_id), ...named, filters.agent_id]),
    choicesOf(call, 'listWebhooks', [...list.page.items.map((one) => one.webhook_id), filters.webhook_id]),
  ]);
  return view('deliveries/list', 'Deliveries', { filters, ...list, agents, webhooks, ...dead });
};

/** The groups of the first page of dead letters. `replays` false: the agent is revoked, and a replay would wait in vain. */
async function deadGroups(call: Call, { state, agent_id, webhook_id, event_id, cursor, reason }: Filters) {
  if (state !== 'dead' || event_id !== undefined || cursor !== undefined) return {};
  const [grouped, agent] = await Promise.all([
    call('groupDeadLetters', { query: { agent_id, webhook_id } }),
    agent_id === undefined ? null : call('showAgent', { id: agent_id }),
  ]);
  if (grouped.kind !== 'done') return {};
  const items = grouped.body.items.filter((group) => reason === undefined || group.reason === reason);
  const replays = agent === null || (agent.kind === 'done' && !agent.body.revoked);
  return { groups: { ...grouped.body, items }, replays };
}

const showDelivery: Page = async ({ call, id }) => {
  const [delivery, attempts] = await Promise.all([call('showDelivery', { id }), call('listAttempts', { id })]);
  if (delivery.kind !== 'done') return asProblem(delivery);
  const { agent_id, webhook_id } = delivery.body;
  const [agents, webhooks] = await Promise.all([
    namesOf(call, 'listAgents', [agent_id]),
    namesOf(call, 'listWebhooks', [webhook_id]),
  ]);
  return view('deliveries/show', `Delivery ${id.slice(-8)}`, {
    delivery: delivery.body,
    attempts: attempts.kind === 'done' ? attempts.body.items : [],
    agents,
    webhooks,
  });
};

const replayDelivery: Page = async ({ call, id }) => {
  const replayed = await call('replayDelivery', { id });
  return replayed.kind === 'done' ? redirect(`/deliveries/${id}`, 'replayed') : asProblem(replayed);
};

const dismissDelivery: Page = async ({ call, id }) => {
  const dismissed = await call('dismissDelivery', { id });
  return dismissed.kind === 'done' ? redirect(`/deliveries/${id}`, 'dismissed') : asProblem(dismissed);
};

const replayDeadLetters: Page = async ({ call, form }) => {
  const replayed = await call('replayDeliveries', { input: { ...scopeOf(form), state: 'dead' } });
  if (replayed.kind !== 'done') return asProblem(replayed);
  return afterAction(form, 'dead-replayed', { ...replayed.body, count: replayed.body.replayed });
};

const dismissDeadLetters: Page = async ({ call, form }) => {
  const dismissed = await call('dismissDeliveries', { input: scopeOf(form) });
  if (dismissed.kind !== 'done') return asProblem(dismissed);
  return afterAction(form, 'dead-dismissed', { ...dismissed.body, count: dismissed.body.dismissed });
};

const undoDeliveries: Page = async ({ call, form }) => {
  const undone = await call('undoDeliveries', { input: { action_id: field(form, 'action_id') } });
  if (undone.kind !== 'done') return asProblem(undone);
  const { restored, others } = undone.body;
  return redirect(`/deliveries?state=dead&count=${restored}`, others === 0 ? 'undone' : 'undone-in-part');
};

export const deliveryPages = {
  deliveryList,
  showDelivery,
  replayDelivery,
  dismissDelivery,
  replayDeadLetters,
  dismissDeadLetters,
  undoDeliveries,
};

/** The reason is JSON, because a form changes the line ends of text, and because no reason is a group too. */
function scopeOf(form: PageRequest['form']) {
  const reason = form.get('reason');
  return { ...filtersOf(form, ['agent_id', 'webhook_id']), ...(reason === null ? {} : { reason: parsed(reason) }) };
}

/** Text that is no JSON is not from the form. It must not mean every reason: the operation refuses false. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return false;
  }
}

function afterAction(
  form: PageRequest['form'],
  notice: string,
  { count, more, action_id }: { count: number; more: boolean; action_id: string | null },
) {
  const shown = { ...filtersOf(form, ['agent_id', 'webhook_id']), state: 'dead', count, action: action_id };
  return redirect(address('/deliveries', shown), more ? `${notice}-in-part` : notice);
}
