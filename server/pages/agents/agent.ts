/** The page of one agent: its subscriptions, what it does, its newest deliveries, and the OAuth clients that act as it. */

import type { BodyOf } from '../../manage/api/operations.ts';
import { allows } from '../../model/users.ts';
import { agentActivity, webhookHistory } from '../activity.ts';
import { chart } from '../charts/chart.ts';
import { agentLamp, flowOf, readIssues, receivingLamps } from '../flow/flow.ts';
import { agentState } from '../flow/state.ts';
import { choicesOf, namesOf } from '../names.ts';
import { type Call, emptyPage, itemsOf, type PageReply, type PageRequest, partOf, view } from '../page.ts';
import { agentSamples } from '../samples/samples.ts';

const DELIVERIES_SHOWN = 10;
const FLOW_WEBHOOKS = 50;
const backlogFrame = { width: 900, height: 120 };
/** Webhooks on the page of an agent, those with a filter first; all are on a page of their own. */
const WEBHOOKS_SHOWN = 50;

type Agent = BodyOf<'showAgent'>;

type Work = Awaited<ReturnType<typeof readWork>>;

/** Reads what the agent does, its first webhooks and newest deliveries. Needs only the id, so the page reads the agent at the same time. */
export async function readWork(call: Call, id: string) {
  const now = Date.now();
  const deliveriesIn = (state: string) =>
    call('listDeliveries', { query: { agent_id: id, state, limit: String(DELIVERIES_SHOWN) } });
  const webhooksWith = (filtered: string) =>
    call('listAgentWebhooks', { id, query: { filtered, limit: String(WEBHOOKS_SHOWN) } });
  const showing = partOf(call('showBacklog', { id }));
  // Without the backlog, whose history may take too long, count again: the page of a revoked agent needs the numbers.
  const counting = showing.then(async (backlog) => {
    if (backlog !== null) return { ...backlog, pending: backlog.pending - backlog.leased };
    const counted = await call('countDeliveries', { query: { agent_id: id } });
    return counted.kind === 'done' ? counted.body : null;
  });
  const acting = agentActivity(call, [id]).then((activity) => Object.values(activity)[0]);
  // Skip the query if no delivery is leased: to find none, Postgres would read all pending deliveries.
  const leasing = counting.then(async (counted) => {
    if (counted?.leased === 0 && (counted.exact || !(await acting)?.working)) return emptyPage;
    return itemsOf(await deliveriesIn('leased'));
  });
  const [filtered, others, counts, pending, leased, dead, activity, backlog] = await Promise.all([
    webhooksWith('true'),
    webhooksWith('false'),
    counting,
    deliveriesIn('pending'),
    leasing,
    deliveriesIn('dead'),
    acting,
    showing,
  ]);
  const subscriptions = [...itemsOf(filtered).items, ...itemsOf(others).items].slice(0, WEBHOOKS_SHOWN);
  const receivingIds = subscriptions.slice(0, FLOW_WEBHOOKS).map(({ webhook_id }) => webhook_id);
  const [history, issues] = await Promise.all([
    webhookHistory(call, receivingIds),
    readIssues(call, [id, ...receivingIds]),
  ]);
  const receiving = Object.values(history).map((one) => ({ ...one, id: one.webhook_id, counted: one }));
  return {
    now,
    subscriptions,
    issues,
    lamps: receiving.length === 0 ? [] : receivingLamps(receiving, issues ?? [], now),
    backlog: backlog && { ...backlog, ...backlogChart(backlog) },
    counts,
    deliveries: { pending: itemsOf(pending), leased, dead: itemsOf(dead) },
    cellsAway: itemsOf(pending).cells_away,
    activity,
  };
}

/** The chart; null: nothing has waited for longer than a moment. */
function backlogChart({ points, pending }: { points: readonly { pending: number }[]; pending: number }) {
  const isWorth = pending > 0 || points.some((point) => point.pending > 0);
  const series = { waiting: points.map((point) => point.pending) };
  return { chart: isWorth ? chart(series, points.length, backlogFrame) : null };
}

/**
 * The page of the agent.
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
  const own = agentLamp(agent, work.activity, work.issues ?? [], work.now);
  const shown = {
    ...work,
    agent,
    webhooks,
    targets,
    clients: clients.items.filter(hasAccess),
    agentSamples,
    state: agentState(work.activity, work.now),
    flow: agent.revoked ? null : flowOf([...work.lamps, own], work.issues !== null),
    errors: {},
  };
  return view('agents/show', agent.name, { ...shown, ...more }, feedback);
}
