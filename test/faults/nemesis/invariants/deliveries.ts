/** What holds between events, subscriptions and deliveries. */
import { groups, type Indexed, type Invariant } from '../checker.ts';
import type { Agent, StoredDelivery, StoredEvent } from '../history.ts';
import { JOINED } from '../world/programs.ts';

/** Other processes know a change of a subscription after at most this time. */
const KNOWN_AFTER_MS = 1_500;
/** A request without a response may be stored until then. */
const COMMITTED_AFTER_MS = 12_000;
const FINISHED = new Set(['done', 'dead', 'dismissed', 'filtered']);

const requestOf = ({ requestByMark }: Indexed, event: StoredEvent) => requestByMark.get(event.mark);

/** Least and greatest number of deliveries of an event that an agent may have. */
function expected(seen: Indexed, agent: Agent, event: StoredEvent): readonly [min: number, max: number] {
  const request = requestOf(seen, event);
  if (request === undefined) return [0, 1];
  if (agent.role === 'gets replays') return expectedReplays(seen, event);
  if (agent.role !== 'joins and leaves') return agent.webhooks.includes(request.webhook) ? [1, 1] : [0, 0];
  if (request.webhook !== JOINED) return [0, 0];
  const endAt = seen.configuration.spool ? Infinity : request.answeredAt + COMMITTED_AFTER_MS;
  const changes = seen.history.subscriptions.filter(({ sentAt }) => sentAt <= endAt);
  // Without a response, a change may have been made, or may be made later.
  const isSure = (change: (typeof changes)[number]) => change.status !== null && change.status < 300;
  const past = changes.filter((change) => isSure(change) && change.answeredAt + KNOWN_AFTER_MS < request.sentAt);
  if (past.length < changes.length) return [0, 1];
  const last = past.at(-1);
  // Two changes were made at the same time: the one that was sent first may have come last.
  if (past.some(({ on, answeredAt }) => on !== last!.on && answeredAt > last!.sentAt)) return [0, 1];
  return last?.on ? [1, 1] : [0, 0];
}

function expectedReplays(seen: Indexed, event: StoredEvent): readonly [min: number, max: number] {
  const { history, configuration } = seen;
  const request = requestOf(seen, event)!;
  const within = history.jobs.filter(
    ({ webhook, fromMs, toMs }) =>
      webhook === request.webhook && event.receivedAtMs >= fromMs && event.receivedAtMs < toMs,
  );
  const sure = within.filter(
    ({ state, cancelled, sentAt }) =>
      state === 'done' && !cancelled && !configuration.spool && request.status === 202 && request.answeredAt < sentAt,
  );
  return [sure.length, within.length];
}

/** An invariant of each delivery. */
const ofDeliveries = (
  violated: (delivery: StoredDelivery, agent: Agent | undefined, seen: Indexed) => boolean,
): Invariant =>
  function* (seen) {
    for (const delivery of seen.stored.deliveries) {
      const agent = seen.agentById.get(delivery.agent_id);
      if (violated(delivery, agent, seen)) yield `${agent?.name} ${JSON.stringify(delivery)}`;
    }
  };

export const deliveryInvariants: Readonly<Record<string, Invariant>> = {
  *'an id belongs to one delivery'({ stored }) {
    for (const [id, found] of groups(stored.deliveries, (delivery) => delivery.id)) if (found.length > 1) yield id;
  },

  *'each subscription has one delivery of an event'(seen) {
    const counts = new Map<string, number>();
    for (const { event_id, agent_id } of seen.stored.deliveries) {
      const key = `${event_id} ${agent_id}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const event of seen.stored.events)
      for (const agent of seen.agents) {
        const count = counts.get(`${event.id} ${agent.id}`) ?? 0;
        const [min, max] = expected(seen, agent, event);
        if (count < min || count > max) {
          const { webhook, status, sentAt } = requestOf(seen, event) ?? {};
          const of = `event ${event.id} of ${webhook}, sent at ${seen.history.at(sentAt ?? 0)}, answered ${status}`;
          yield `${agent.name} has ${count} of ${min} to ${max} deliveries of ${of}`;
        }
      }
  },

  'a delivery has its event': ofDeliveries(({ event_id }, agent, { events }) => !events.has(event_id) || !agent),

  'a delivery is attempted up to the limit': ofDeliveries(
    ({ attempts, state, history }, _, { configuration: { attemptsMax } }) =>
      attempts > attemptsMax || (state === 'dead' && attempts < attemptsMax && !/expired|revoked/.test(history)),
  ),

  'an agent that acknowledges everything has no dead delivery': ofDeliveries(
    ({ state }, agent) => state === 'dead' && agent?.maxLeased === 1,
  ),

  'every delivery is finished after the faults': ofDeliveries(
    ({ state }, agent) => !FINISHED.has(state) && agent?.lost === false,
  ),

  'a filter decides on a delivery': ofDeliveries(({ state, event_id }, agent, { events, requestByMark }) => {
    if (agent?.filterChanges) return false;
    if (agent?.filter === undefined) return state === 'filtered';
    const mark = events.get(event_id)?.mark ?? '';
    const passes = requestByMark.get(mark)?.parts.find((part) => part.mark === mark)?.passes;
    return passes === true ? state === 'filtered' : passes === false && state !== 'filtered' && state !== 'pending';
  }),

  'a dismissed delivery was dismissed': ofDeliveries(
    ({ state }, _, { history }) => state === 'dismissed' && history.dismissals.length === 0,
  ),

  *'a job is finished'({ history }) {
    for (const job of history.jobs)
      if (job.id !== null && job.state !== 'done' && !(job.cancelled && job.state === 'cancelled'))
        yield `${job.id} of ${job.webhook}: ${job.state}`;
  },
};
