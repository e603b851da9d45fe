/** GET /deliveries: events on their way to agents. */
import { filtersOf } from './filters.ts';
import { type Page, view } from './page.ts';

export const deliveryList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['state', 'webhook_id', 'agent_id', 'cursor']);
  const list = await call('listDeliveries', { query: filters });
  if (list.kind === 'problem') return list;
  const page = list.kind === 'done' ? list.body : { items: [], next_cursor: null };
  return view('deliveries/list', 'Deliveries', { filters, page, errors: list.kind === 'invalid' ? list.errors : {} });
};
