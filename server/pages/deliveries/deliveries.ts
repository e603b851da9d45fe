/** /deliveries: the list, dead letters by reason, one delivery with its attempts, and their replay and dismissal. */

import { describeEvent } from '../../manage/api/events/filter.ts';
import { needsOneAgent } from '../../model/events.ts';
import { readableBody } from '../../model/signatures/gzip.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findEvent } from '../../store/queries/events/events.ts';
import { showBody } from '../events/body/view.ts';
import { field, filtersOf, jsonOf, list } from '../forms/form.ts';
import { choicesOf, listBy, namesOf } from '../names.ts';
import { action, asProblem, type Call, listOf, type Page, type PageRequest, redirect, view } from '../page.ts';
import { address } from '../show.ts';

const filterNames = ['held', 'agent_id', 'webhook_id', 'event_id', 'from', 'to', 'state', 'cursor'] as const;
type Filters = ReturnType<typeof filtersOf<(typeof filterNames)[number] | 'reason'>>;

const deliveryList: Page = async ({ call, query }) => {
  const reason = query.get('reason');
  // Not trimmed: an agent may give a reason with spaces around it.
  const given: Filters = { ...filtersOf(query, filterNames), ...(reason ? { reason, state: 'dead' } : {}) };
  const { filters, listed } = await listBy(call, 'listDeliveries', given);
  if (listed.kind === 'problem') return listed;
  const listing = listOf(listed);
  const [dead, replayable] =
    listed.kind === 'done' ? await Promise.all([deadGroups(call, filters), replayableOf(call, filters)]) : [{}, null];
  const named = dead.groups?.items.flatMap((group) => group.agent_ids) ?? [];
  const [agents, webhooks] = await Promise.all([
    choicesOf(call, 'agents', [...listing.page.items.map((one) => one.agent_id), ...named, filters.agent_id]),
    choicesOf(call, 'webhooks', [...listing.page.items.map((one) => one.webhook_id), filters.webhook_id]),
  ]);
  return view('deliveries/list', 'Deliveries', { filters, ...listing, agents, webhooks, ...dead, replayable });
};

/** The groups of all dead letters, shown on the first page. `replays` false: the agent is revoked, so no client would claim a replay. */
async function deadGroups(call: Call, filters: Filters) {
  const { state, agent_id, webhook_id, cursor, reason } = filters;
  if (state !== 'dead' || isNarrowed(filters) || cursor !== undefined) return {};
  const [grouped, replays] = await Promise.all([
    call('groupDeadLetters', { query: { agent_id, webhook_id } }),
    isActive(call, agent_id),
  ]);
  if (grouped.kind !== 'done') return {};
  const items = grouped.body.items.filter((group) => reason === undefined || group.reason === reason);
  return { groups: { ...grouped.body, items }, replays };
}

/** States in which a button replays the whole list. Dead letters are replayed by reason. */
const replayedAsAWhole = ['dismissed', 'filtered'];

/** The state whose deliveries the button of the list replays, and whether an agent must be chosen before; null: no button. */
async function replayableOf(call: Call, filters: Filters) {
  const { state, agent_id } = filters;
  if (state === undefined || !replayedAsAWhole.includes(state) || isNarrowed(filters)) return null;
  if (agent_id === undefined && needsOneAgent(state)) return { state, needsAgent: true };
  return (await isActive(call, agent_id)) ? { state, needsAgent: false } : null;
}

/** Whether the list has a filter that a replay does not have. */
function isNarrowed({ event_id, held, from, to }: Filters): boolean {
  return [event_id, held, from, to].some((value) => value !== undefined);
}

/** Whether a replay can reach an agent: true without a filter by agent, or if that agent is not revoked. */
async function isActive(call: Call, agentId: string | undefined): Promise<boolean> {
  if (agentId === undefined) return true;
  const agent = await call('showAgent', { id: agentId });
  return agent.kind === 'done' && !agent.body.revoked;
}

/** The page of a delivery, with the body of the event if the delivery failed. */
const showDelivery =
  (database: Database): Page =>
  async ({ call, id, query }) => {
    const [delivery, attempts] = await Promise.all([call('showDelivery', { id }), call('listAttempts', { id })]);
    if (delivery.kind !== 'done') return asProblem(delivery);
    const { agent_id, webhook_id, event_id, state, reason } = delivery.body;
    const failed = state === 'dead' || (reason !== null && state !== 'done');
    const [agents, webhooks, event] = await Promise.all([
      namesOf(call, 'agents', [agent_id]),
      namesOf(call, 'webhooks', [webhook_id]),
      failed ? findEvent(database, null, event_id) : undefined,
    ]);
    return view('deliveries/show', `Delivery ${id.slice(-8)}`, {
      delivery: delivery.body,
      attempts: attempts.kind === 'done' ? attempts.body.items : [],
      agents,
      webhooks,
      event,
      body: event && bodyOf(event, query),
    });
  };

/** The body without the view of its changes, which compares events. */
function bodyOf(event: NonNullable<Awaited<ReturnType<typeof findEvent>>>, query: URLSearchParams) {
  const { headers, content_type } = describeEvent(event);
  const body = readableBody(event.body, headers['content-encoding']);
  const wanted = query.get('view');
  const shown = showBody(body, content_type, wanted === 'diff' ? null : wanted, query.get('values') === 'all');
  return { ...shown, views: shown.views.filter((name) => name !== 'diff') };
}

const replayDelivery = action('replayDelivery', (_, { id }) => redirect(`/deliveries/${id}`, 'replayed'));
const dismissDelivery = action('dismissDelivery', (_, { id }) => redirect(`/deliveries/${id}`, 'dismissed'));

/** Changes the rows that are chosen in the list, or all of its scope. The filters of the list stay. */
const changeMany =
  (change: (call: Call, input: object, state: string) => Promise<Changed>): Page =>
  async ({ call, form }) => {
    const isChosen = form.has('chosen');
    const delivery_ids = list(form, 'id');
    const reason = isChosen ? field(form, 'reason') : '';
    const shown = { ...filtersOf(form, filterNames), reason };
    if (isChosen && delivery_ids.length === 0) return redirect(address('/deliveries', shown), 'none-chosen');
    const state = isChosen ? '' : field(form, 'state') || 'dead';
    const changed = await change(call, isChosen ? { delivery_ids } : scopeOf(form), state);
    if ('kind' in changed) return asProblem(changed);
    const { notice, count, more, action_id } = changed;
    const to = address('/deliveries', { ...shown, state: changed.state ?? shown.state, count, action: action_id });
    return redirect(to, more ? `${notice}-in-part` : notice);
  };

type Changed =
  | { notice: string; state?: string; count: number; more: boolean; action_id: string | null }
  | Parameters<typeof asProblem>[0];

/** Chosen rows are replayed whatever their state. */
const replayDeliveries = changeMany(async (call, input, state) => {
  const replayed = await call('replayDeliveries', { input: state === '' ? input : { ...input, state } });
  if (replayed.kind !== 'done') return replayed;
  const notice = state === 'dead' ? 'dead-replayed' : 'many-replayed';
  return { ...replayed.body, count: replayed.body.replayed, notice, ...(state === '' ? {} : { state }) };
});

const dismissDeadLetters = changeMany(async (call, input) => {
  const dismissed = await call('dismissDeliveries', { input });
  if (dismissed.kind !== 'done') return dismissed;
  return { ...dismissed.body, count: dismissed.body.dismissed, notice: 'dead-dismissed', state: 'dead' };
});

const undoDeliveries = action(
  'undoDeliveries',
  ({ body: { restored, others } }, { form }) => {
    const shown = { state: field(form, 'state') || 'dead', count: restored };
    return redirect(address('/deliveries', shown), others === 0 ? 'undone' : 'undone-in-part');
  },
  ({ form }) => ({ input: { action_id: field(form, 'action_id') } }),
);

/** The pages of deliveries. @param database with the bodies of events, which the operations leave out */
export const deliveryPages = (database: Database) => ({
  deliveryList,
  showDelivery: showDelivery(database),
  replayDelivery,
  dismissDelivery,
  replayDeliveries,
  dismissDeadLetters,
  undoDeliveries,
});

/** The reason is JSON, because a form changes the line ends of text, and because no reason is a group too. */
function scopeOf(form: PageRequest['form']) {
  const reason = form.get('reason');
  const value = reason === null ? undefined : jsonOf(reason);
  // What is not JSON is not from the form. It must not mean every reason: the operation refuses false.
  const given = reason === null ? {} : { reason: value === undefined ? false : value };
  return { ...filtersOf(form, ['agent_id', 'webhook_id']), ...given };
}
