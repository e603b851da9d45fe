/** /deliveries: events on their way to agents. */
import { filtersOf } from './filters.ts';
import { namesOf } from './names.ts';
import { asProblem, listOf, type Page, redirect, view } from './page.ts';

const deliveryList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['state', 'agent_id', 'webhook_id', 'event_id', 'cursor']);
  const [listed, agents, webhooks] = await Promise.all([
    call('listDeliveries', { query: filters }),
    namesOf(call, 'listAgents'),
    namesOf(call, 'listWebhooks'),
  ]);
  if (listed.kind === 'problem') return listed;
  return view('deliveries/list', 'Deliveries', { filters, ...listOf(listed), agents, webhooks });
};

const showDelivery: Page = async ({ call, id }) => {
  const delivery = await call('showDelivery', { id });
  if (delivery.kind !== 'done') return asProblem(delivery);
  const [agents, webhooks] = await Promise.all([namesOf(call, 'listAgents'), namesOf(call, 'listWebhooks')]);
  return view('deliveries/show', `Delivery ${id.slice(-8)}`, { delivery: delivery.body, agents, webhooks });
};

const replayDelivery: Page = async ({ call, id }) => {
  const replayed = await call('replayDelivery', { id });
  return replayed.kind === 'done' ? redirect(`/deliveries/${id}`, 'replayed') : asProblem(replayed);
};

export const deliveryPages = { deliveryList, showDelivery, replayDelivery };
