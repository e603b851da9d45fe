/** /deliveries: events on their way to agents. */
import { filtersOf } from './filters.ts';
import { namesOf } from './names.ts';
import { asProblem, type Call, listOf, type Page, redirect, view } from './page.ts';

const filterNames = ['state', 'agent_id', 'webhook_id', 'event_id', 'cursor'] as const;
type Filters = ReturnType<typeof filtersOf<(typeof filterNames)[number]>>;

const deliveryList: Page = async ({ call, query }) => {
  const filters: Filters = filtersOf(query, filterNames);
  const [listed, agents, webhooks] = await Promise.all([
    call('listDeliveries', { query: filters }),
    namesOf(call, 'listAgents'),
    namesOf(call, 'listWebhooks'),
  ]);
  if (listed.kind === 'problem') return listed;
  const replayable = await replayableIn(call, filters);
  return view('deliveries/list', 'Deliveries', { filters, ...listOf(listed), agents, webhooks, replayable });
};

/** How many dead letters one replay can take of such a list; 0 where it is not that of an agent in force. */
async function replayableIn(call: Call, { state, agent_id, webhook_id, event_id }: Filters): Promise<number> {
  if (state !== 'dead' || agent_id === undefined || event_id !== undefined) return 0;
  const [agent, counted] = await Promise.all([
    call('showAgent', { id: agent_id }),
    call('countDeliveries', { query: { agent_id, webhook_id } }),
  ]);
  return agent.kind === 'done' && !agent.body.revoked && counted.kind === 'done' ? counted.body.dead : 0;
}

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
