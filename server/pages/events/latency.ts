/** /webhooks/latency: how long events take, for each webhook and agent, the slowest first. */
import { LATENCY_SUBJECTS_MAX, type LatencyDays, latencySpans } from '../../model/latency.ts';
import { filtersOf } from '../forms/form.ts';
import { namesOf } from '../names.ts';
import { listOf, type Page, view } from '../page.ts';

const spans: Record<LatencyDays, string> = { 1: '24 hours', 7: '7 days', 30: '30 days' };

const latency: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['days', 'id']);
  const days = filters.days ?? String(Object.keys(latencySpans)[0]);
  const listed = await call('listLatency', { query: { ...filters, days } });
  if (listed.kind === 'problem') return listed;
  const { page, errors } = listOf(listed);
  const of = (kind: string) => page.items.filter((item) => item.kind === kind);
  const webhooks = of('webhook');
  const ids = webhooks.map((item) => item.id);
  return view('latency', 'Latency', {
    days,
    id: filters.id ?? null,
    spans,
    most: LATENCY_SUBJECTS_MAX,
    webhooks,
    names: await namesOf(call, 'webhooks', ids),
    agents: of('agent'),
    errors,
  });
};

export const latencyPages = { latency };
