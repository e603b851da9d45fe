/** What holds between claims, acknowledgements and deliveries. */
import { uuidv7Cell } from '../../../../server/store/ids.ts';
import { groups, type Indexed, type Invariant } from '../checker.ts';
import type { Lease, Settlement } from '../history.ts';

/** Rounding of two clocks to milliseconds. */
const ROUNDING_MS = 5;

/** Time until which no other client may hold the delivery. */
function endOf(lease: Lease, { history, agents }: Indexed): number {
  const { settlements, agent, sentAt, seconds, receipt, answeredAt } = lease;
  let end = sentAt + seconds * 1_000;
  for (const { how, done, sentAt: at, seconds: longer } of settlements)
    if (how === 'extend' && done.has(receipt)) end = Math.max(end, at + longer * 1_000);
  const first = settlements.find(({ how }) => how !== 'extend');
  if (first !== undefined) end = Math.min(end, first.sentAt);
  for (const rotation of history.rotations)
    if (rotation.agent === agent && rotation.answeredAt > sentAt) end = Math.min(end, rotation.sentAt);
  // An undo makes deliveries dead that were replayed.
  const nacks = agents.find(({ name }) => name === agent)?.nacks ?? 0;
  for (const { undoneAt } of nacks > 0.5 ? history.replays : [])
    if (undoneAt !== Number.POSITIVE_INFINITY) end = Math.min(end, Math.max(answeredAt, undoneAt));
  return end;
}

const shown = (lease: Lease, seen: Indexed) =>
  `${lease.agent} ${lease.receipt} at ${seen.history.at(lease.sentAt)} to ${seen.history.at(lease.answeredAt)} for ${lease.seconds} s, ${lease.settlements
    .map(({ how, sentAt, done }) => `${how} ${done.has(lease.receipt)} at ${seen.history.at(sentAt)}`)
    .join(', ')}`;

/** Leases of each delivery, in their order, with the one before. */
function* pairs(seen: Indexed): Iterable<[before: Lease, lease: Lease]> {
  for (const leases of groups(seen.history.leases, ({ delivery }) => delivery).values()) {
    leases.sort((a, b) => a.number - b.number || a.sentAt - b.sentAt);
    for (const [at, lease] of leases.entries()) if (at > 0) yield [leases[at - 1]!, lease];
  }
}

const ofPairs = (violated: (before: Lease, lease: Lease, seen: Indexed) => boolean): Invariant =>
  function* (seen) {
    for (const [before, lease] of pairs(seen))
      if (violated(before, lease, seen)) yield `${shown(before, seen)}; then ${shown(lease, seen)}`;
  };

const ofLeases = (violated: (lease: Lease, seen: Indexed) => boolean): Invariant =>
  function* (seen) {
    for (const lease of seen.history.leases) if (violated(lease, seen)) yield shown(lease, seen);
  };

/** Acknowledgements by delivery; `true`: one of them was confirmed. */
function acknowledged({ history }: Indexed): Map<string, boolean> {
  const found = new Map<string, boolean>();
  for (const { how, receipts, done } of history.settlements)
    for (const receipt of how === 'ack' ? receipts : []) {
      const delivery = receipt.split('.')[0]!;
      found.set(delivery, found.get(delivery) === true || done.has(receipt));
    }
  return found;
}

const confirmed = ({ settlements, receipt }: Lease): Settlement | undefined =>
  settlements.find(({ how, done }) => how === 'ack' && done.has(receipt));

export const leaseInvariants: Readonly<Record<string, Invariant>> = {
  'a receipt is given once': ofPairs((before, lease) => before.receipt === lease.receipt),

  'a delivery is leased to one client at a time': ofPairs(
    (before, lease, seen) => lease.answeredAt < endOf(before, seen) - ROUNDING_MS,
  ),

  'an acknowledged delivery is not claimed again': ofPairs((before, lease) => {
    const ack = confirmed(before);
    return ack !== undefined && lease.answeredAt > ack.answeredAt;
  }),

  'a lease is that of a stored delivery of its agent': ofLeases(
    (lease, { deliveries, agents, configuration, requestByEvent }) => {
      // Retention may have removed it.
      if (Number.isFinite(requestByEvent.get(lease.event)?.expiresAt)) return false;
      const delivery = deliveries.get(lease.delivery);
      const agent = agents.find(({ name }) => name === lease.agent)!;
      const isOwn = delivery?.agent_id === agent.id && delivery.event_id === lease.event;
      return !isOwn || lease.number > delivery.leases || lease.attempt > configuration.attemptsMax;
    },
  ),

  'an agent gets the bytes of the event': ofLeases(({ event, hash, marker }, { events }) => {
    const found = events.get(event);
    return found !== undefined && (found.hash !== hash || !found.headers.includes(`: ${marker}`));
  }),

  *'a delivery is done when it was acknowledged'(seen) {
    const acks = acknowledged(seen);
    const handled = new Set(seen.history.handled.map(({ delivery }) => delivery));
    for (const { id, state, agent_id } of seen.stored.deliveries) {
      const { name, role } = seen.agentById.get(agent_id) ?? {};
      if (acks.get(id) && state !== 'done') yield `${name} ${id} was acknowledged and is ${state}`;
      const isKnown = role === 'library' ? handled.has(id) : acks.has(id);
      if (state === 'done' && !isKnown) yield `${name} ${id} is done without an acknowledgement`;
    }
  },

  *'the client library gets the bytes of the event'({ history, events }) {
    for (const { event, hash } of history.handled)
      if (events.has(event) && events.get(event)!.hash !== hash) yield event;
  },

  /** Over all cells but one that is away, so a cell alone is what a fault of the other leaves. @see cells.md */
  *'max_leased is not exceeded'(seen) {
    for (const { name, maxLeased = Infinity } of seen.agents) {
      const own = seen.history.leases.filter(({ agent }) => agent === name);
      for (const leases of groups(own, ({ delivery }) => String(uuidv7Cell(delivery))).values()) {
        const held = leases
          // Retention removes a delivery, and the claim that follows takes its place.
          .filter((lease) => !Number.isFinite(seen.requestByEvent.get(lease.event)?.expiresAt))
          .map((lease) => [lease.answeredAt, endOf(lease, seen)] as const)
          .filter(([from, to]) => to > from);
        const steps = held.flatMap(([from, to]) => [[from, 1] as const, [to, -1] as const]);
        let count = 0;
        for (const [time, step] of steps.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
          count += step;
          if (count > maxLeased) yield `${name} held ${count} of ${maxLeased} at ${seen.history.at(time)}`;
        }
      }
    }
  },

  /**
   * One client that gets one delivery at a time gets those of a webhook in the order in which their requests were answered. Those of a
   * spool come after later ones; `received_at` has their order.
   */
  *'a webhook is delivered in order'(seen) {
    const { history, requestByEvent, configuration } = seen;
    if (configuration.spool) return;
    const one = seen.agents.find(({ maxLeased }) => maxLeased === 1)!.name;
    const firsts = history.leases.filter(({ agent, number }) => agent === one && number === 1);
    firsts.sort((a, b) => a.sentAt - b.sentAt);
    let latest: { sentAt: number; claimedAt: number; text: string } | null = null;
    for (const lease of firsts) {
      const request = requestByEvent.get(lease.event);
      if (request === undefined) continue;
      if (latest && request.answeredAt < latest.sentAt && request.answeredAt < latest.claimedAt)
        yield `${shown(lease, seen)} after ${latest.text}`;
      if (latest === null || request.sentAt > latest.sentAt)
        latest = { sentAt: request.sentAt, claimedAt: lease.sentAt, text: shown(lease, seen) };
    }
  },
};
