/** The page of one agent: its subscriptions, what it does, and its newest deliveries. */

import { DAY_MS } from '../../base/time/durations.ts';
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { agentActivity } from '../activity.ts';
import { readOutagesSince } from '../charts/outage-list.ts';
import { choicesOf, namesOf } from '../names.ts';
import { emptyPage, itemsOf, type PageReply, type PageRequest, view } from '../page.ts';
import { samplesOf } from '../samples/agent.ts';
import { shownSubscriptions } from './filters.ts';
import { agentState } from './state.ts';
import { agentStrip } from './strip.ts';

const DELIVERIES_SHOWN = 10;

type Agent = Success<Operations['showAgent']['answers']>['body'];

/**
 * @param more further members for the template, such as a new credential, or the errors of a form
 * @param feedback status and address of the reply
 */
export async function agentView(
  { call }: PageRequest,
  agent: Agent,
  more: object,
  feedback: Parameters<typeof view>[3] = {},
): Promise<PageReply> {
  const deliveriesIn = (state: string) =>
    call('listDeliveries', { query: { agent_id: agent.id, state, limit: String(DELIVERIES_SHOWN) } });
  const now = Date.now();
  const subscriptions = shownSubscriptions(agent.subscriptions);
  const counting = call('countDeliveries', { query: { agent_id: agent.id } });
  const acting = agentActivity(call, [agent.id]);
  // To find none in progress, Postgres reads all that are pending.
  const leasing = counting.then(async (counted) => {
    const hasNone = counted.kind === 'done' && counted.body.leased === 0;
    if (hasNone && (counted.body.exact || !(await acting)[agent.id]?.working)) return emptyPage;
    return itemsOf(await deliveriesIn('leased'));
  });
  const [counted, pending, leased, dead, activity, targets, outages] = await Promise.all([
    counting,
    deliveriesIn('pending'),
    leasing,
    deliveriesIn('dead'),
    acting,
    agent.revoked ? choicesOf(call, 'agents', [], { active: true }) : null,
    readOutagesSince(call, now - DAY_MS),
  ]);
  const counts = counted.kind === 'done' ? counted.body : null;
  const deliveries = { pending: itemsOf(pending), leased, dead: itemsOf(dead) };
  const named = [...subscriptions, ...Object.values(deliveries).flatMap(({ items }) => items)];
  const active = activity[agent.id];
  const shown = {
    agent,
    subscriptions,
    webhooks: await namesOf(
      call,
      'webhooks',
      named.map((one) => one.webhook_id),
    ),
    targets,
    deliveries,
    counts,
    cellsAway: itemsOf(pending).cells_away,
    activity: active,
    strip: active?.last_seen_at == null ? null : agentStrip(active, outages, now),
    samplesOf,
    agentState,
    now,
    errors: {},
  };
  return view('agents/show', agent.name, { ...shown, ...more }, feedback);
}
