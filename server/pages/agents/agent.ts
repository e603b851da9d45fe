/** The page of one agent: its subscriptions, what it does, its newest deliveries, and the OAuth clients that act as it. */

import { DAY_MS } from '../../base/time/durations.ts';
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { allows } from '../../model/users.ts';
import { agentActivity } from '../activity.ts';
import type { Call } from '../call.ts';
import { readOutagesSince } from '../charts/outage-list.ts';
import { choicesOf, namesOf } from '../names.ts';
import { emptyPage, itemsOf, type PageReply, type PageRequest, view } from '../page.ts';
import { samplesOf } from '../samples/agent.ts';
import { agentState } from './state.ts';
import { agentStrip } from './strip.ts';

const DELIVERIES_SHOWN = 10;
/** Webhooks on the page of an agent, those with a filter first; all are on a page of their own. */
const WEBHOOKS_SHOWN = 50;

type Agent = Success<Operations['showAgent']['answers']>['body'];

type Work = Awaited<ReturnType<typeof readWork>>;

/** Reads what the agent does, its first webhooks, and its newest deliveries. Needs no more than its id: the page reads it beside the agent. */
export async function readWork(call: Call, id: string) {
  const now = Date.now();
  const deliveriesIn = (state: string) =>
    call('listDeliveries', { query: { agent_id: id, state, limit: String(DELIVERIES_SHOWN) } });
  const webhooksWith = (filtered: string) =>
    call('listAgentWebhooks', { id, query: { filtered, limit: String(WEBHOOKS_SHOWN) } });
  const counting = call('countDeliveries', { query: { agent_id: id } });
  const acting = agentActivity(call, [id]).then((activity) => Object.values(activity)[0]);
  // To find none in progress, Postgres reads all that are pending.
  const leasing = counting.then(async (counted) => {
    const hasNone = counted.kind === 'done' && counted.body.leased === 0;
    if (hasNone && (counted.body.exact || !(await acting)?.working)) return emptyPage;
    return itemsOf(await deliveriesIn('leased'));
  });
  const [filtered, others, counted, pending, leased, dead, activity, outages] = await Promise.all([
    webhooksWith('true'),
    webhooksWith('false'),
    counting,
    deliveriesIn('pending'),
    leasing,
    deliveriesIn('dead'),
    acting,
    readOutagesSince(call, now - DAY_MS),
  ]);
  return {
    now,
    subscriptions: [...itemsOf(filtered).items, ...itemsOf(others).items].slice(0, WEBHOOKS_SHOWN),
    counts: counted.kind === 'done' ? counted.body : null,
    deliveries: { pending: itemsOf(pending), leased, dead: itemsOf(dead) },
    cellsAway: itemsOf(pending).cells_away,
    activity,
    strip: activity?.last_seen_at == null ? null : agentStrip(activity, outages, now),
  };
}

/**
 * @param more further members for the template, such as a new credential, or the errors of a form
 * @param feedback status and address of the reply
 */
export async function agentView(
  { call, person }: PageRequest,
  agent: Agent,
  more: object,
  feedback: Parameters<typeof view>[3] = {},
  reading: Work | Promise<Work> = readWork(call, agent.id),
): Promise<PageReply> {
  const work = await reading;
  const listed = Object.values(work.deliveries).flatMap(({ items }) => items);
  const [webhooks, targets, clients] = await Promise.all([
    namesOf(
      call,
      'webhooks',
      listed.map((one) => one.webhook_id),
    ),
    agent.revoked ? choicesOf(call, 'agents', [], { active: true }) : null,
    allows(person.role, 'operator') ? call('listTokens', { query: { agent_id: agent.id } }).then(itemsOf) : emptyPage,
  ]);
  const hasAccess = ({ state }: { state: string }) => state === 'active' || state === 'suspended';
  const shown = {
    ...work,
    agent,
    webhooks,
    targets,
    clients: clients.items.filter(hasAccess),
    samplesOf,
    agentState,
    errors: {},
  };
  return view('agents/show', agent.name, { ...shown, ...more }, feedback);
}
