/** The test of the checker: each way to break what a run stored or answered violates its invariant. */
import type { Seen } from './checker.ts';
import { History, type Lease, type SentRequest, type StoredDelivery, type StoredEvent } from './history.ts';

/** What sabotages change: a copy of what a run without faults has seen. */
class Copy {
  readonly seen: Seen;

  constructor(seen: Seen) {
    this.seen = structuredClone(seen);
    Object.setPrototypeOf(this.seen.history, History.prototype);
  }

  /** The first request with a response 202 of this webhook. */
  accepted(name: string, is: (sent: SentRequest) => boolean = () => true): SentRequest {
    return this.seen.history.requests.find((sent) => sent.webhook === name && sent.status === 202 && is(sent))!;
  }

  eventOf(sent: SentRequest): StoredEvent {
    return this.seen.stored.events.find(({ mark }) => mark === sent.parts[0]!.mark)!;
  }

  /** A delivery that is done. */
  delivery(agent: string): StoredDelivery {
    const { id } = this.seen.agents.find(({ name }) => name === agent)!;
    return this.seen.stored.deliveries.find((delivery) => delivery.agent_id === id && delivery.state === 'done')!;
  }

  /** A lease that was acknowledged, with a confirmation. */
  acknowledged(agent = 'a0'): Lease {
    return this.seen.history.leases.find(
      (lease) =>
        lease.agent === agent && lease.settlements.some(({ how, done }) => how === 'ack' && done.has(lease.receipt)),
    )!;
  }

  remove(event: StoredEvent): void {
    this.seen.stored.events.splice(this.seen.stored.events.indexOf(event), 1);
  }

  /** The same delivery, leased again after this time. */
  again(lease: Lease, afterMs: number, number = lease.number + 1): void {
    const receipt = `${lease.delivery}.${number}`;
    const [sentAt, answeredAt] = [lease.sentAt + afterMs, lease.answeredAt + afterMs];
    this.seen.history.leases.push({ ...lease, number, receipt, sentAt, answeredAt, settlements: [] });
  }
}

const NEW_ID = '00000000-0000-7000-8000-000000000000';
const LATER_MS = 3_600_000;

/** By invariant; each of them has at least one. */
const sabotages: Readonly<Record<string, Record<string, (copy: Copy) => unknown>>> = {
  'an id belongs to one event': {
    'two cells have one event': ({ seen: { stored } }) => stored.events.push({ ...stored.events[0]! }),
  },
  'a request that was answered 202 is stored': {
    'an event is deleted': (copy) => copy.remove(copy.eventOf(copy.accepted('w1'))),
  },
  'retention removes what is old': {
    'an old event is left': (copy) => {
      copy.accepted('w1').expiresAt = 1;
      copy.seen.history.retentions.push(2);
    },
  },
  'a request is stored once': {
    'an event is doubled': (copy) => copy.seen.stored.events.push({ ...copy.eventOf(copy.accepted('w1')), id: NEW_ID }),
  },
  'a key is stored once, and not lost': {
    'an event with a key is deleted': (copy) => copy.remove(copy.eventOf(copy.accepted('w0'))),
    'an event with a key is doubled': (copy) =>
      copy.seen.stored.events.push({ ...copy.eventOf(copy.accepted('w0')), id: NEW_ID }),
    'a repetition is answered with another id': (copy) => {
      const sent = copy.accepted('w0');
      copy.seen.history.requests.push({ ...sent, parts: [], status: 200, ids: [NEW_ID] });
    },
  },
  'the id of a response is that of the event': {
    'a response has another id': (copy) => Object.assign(copy.accepted('w1'), { ids: [NEW_ID] }),
  },
  'a batch is stored as a whole': {
    'an event of a batch is deleted': (copy) =>
      copy.remove(copy.eventOf(copy.accepted('w4', ({ parts }) => parts.length > 1))),
  },
  'a refused request is not stored': {
    'an event was answered 403': (copy) => Object.assign(copy.accepted('w1'), { status: 403 }),
  },
  'a forged request is refused': {
    'a forged request is answered 202': (copy) => Object.assign(copy.accepted('w1'), { forged: true }),
  },
  'an event has the bytes of its request': {
    'a body is changed': (copy) => Object.assign(copy.eventOf(copy.accepted('w1')), { hash: 'another' }),
    'a header is lost': (copy) => Object.assign(copy.eventOf(copy.accepted('w1')), { headers: '' }),
    'an event has no request': (copy) => Object.assign(copy.eventOf(copy.accepted('w1')), { mark: 'another' }),
  },
  'received_at has the order of arrival': {
    'an event is received later': (copy) => {
      copy.eventOf(copy.accepted('w1')).receivedAtMs += LATER_MS;
    },
  },
  'an id belongs to one delivery': {
    'two cells have one delivery': ({ seen: { stored } }) => stored.deliveries.push({ ...stored.deliveries[0]! }),
  },
  'each subscription has one delivery of an event': {
    'a delivery is deleted': ({ seen: { stored } }) => stored.deliveries.pop(),
    'a delivery is doubled': (copy) => copy.seen.stored.deliveries.push({ ...copy.delivery('a0'), id: NEW_ID }),
  },
  'a delivery has its event': {
    'the event of a delivery is deleted': (copy) => copy.remove(copy.eventOf(copy.accepted('w1'))),
  },
  'a delivery is attempted up to the limit': {
    'a delivery has more attempts': (copy) => Object.assign(copy.delivery('a0'), { attempts: 99 }),
    'a delivery is dead after its first attempt': (copy) =>
      // A lease that expired would explain it.
      Object.assign(copy.delivery('a0'), { state: 'dead', attempts: 1, history: '' }),
  },
  'an agent that acknowledges everything has no dead delivery': {
    'its delivery is dead': (copy) => Object.assign(copy.delivery('a3'), { state: 'dead' }),
  },
  'every delivery is finished after the faults': {
    'a delivery stays leased': (copy) => Object.assign(copy.delivery('a0'), { state: 'leased' }),
  },
  'a filter decides on a delivery': {
    'a delivery that passes is filtered': (copy) => Object.assign(copy.delivery('a1'), { state: 'filtered' }),
    // All of them: an event that is not JSON has no expectation.
    'filtered deliveries are done': ({ seen: { stored } }) => {
      for (const delivery of stored.deliveries) if (delivery.state === 'filtered') delivery.state = 'done';
    },
  },
  'a dismissed delivery was dismissed': {
    'a delivery is dismissed by itself': (copy) => Object.assign(copy.delivery('a0'), { state: 'dismissed' }),
  },
  'a job is finished': {
    'a job stays queued': ({ seen: { history } }) =>
      history.jobs.push({
        what: 'a job',
        webhook: 'w0',
        id: NEW_ID,
        state: null,
        cancelled: false,
        fromMs: 0,
        toMs: 0,
        sentAt: 0,
        answeredAt: 0,
        status: 202,
      }),
  },
  'a receipt is given once': {
    'a lease is given twice': (copy) => copy.again(copy.acknowledged(), 0, copy.acknowledged().number),
  },
  'a delivery is leased to one client at a time': {
    'a second client gets it': (copy) => {
      const lease = copy.acknowledged();
      Object.assign(lease, { settlements: [] });
      copy.again(lease, 1);
    },
  },
  'an acknowledged delivery is not claimed again': {
    'it is claimed again': (copy) => copy.again(copy.acknowledged(), LATER_MS),
  },
  'a lease is that of a stored delivery of its agent': {
    'its delivery is deleted': ({ seen: { stored, history } }) => {
      stored.deliveries = stored.deliveries.filter(({ id }) => id !== history.leases[0]!.delivery);
    },
    'another agent gets it': (copy) => Object.assign(copy.acknowledged(), { agent: 'a1' }),
  },
  'an agent gets the bytes of the event': {
    'a delivery has another body': (copy) => Object.assign(copy.acknowledged(), { hash: 'another' }),
  },
  'a delivery is done when it was acknowledged': {
    'an acknowledged delivery is pending': (copy) => {
      const { delivery } = copy.acknowledged();
      copy.seen.stored.deliveries.find(({ id }) => id === delivery)!.state = 'pending';
    },
    'a delivery without an acknowledgement is done': ({ seen: { history } }) => {
      for (const settlement of history.settlements) settlement.receipts = [];
    },
  },
  'the client library gets the bytes of the event': {
    'its handler gets another body': ({ seen: { history } }) => {
      history.handled[0]!.hash = 'another';
    },
  },
  'max_leased is not exceeded': {
    'an agent holds all of its deliveries': ({ seen: { history } }) => {
      const now = Date.now();
      for (const lease of history.leases)
        if (lease.agent === 'a2') Object.assign(lease, { sentAt: now, answeredAt: now, settlements: [] });
    },
  },
  'a webhook is delivered in order': {
    'the first delivery is claimed last': ({ seen: { history } }) => {
      const leases = history.leases.filter(({ agent, number }) => agent === 'a3' && number === 1);
      leases.sort((a, b) => a.sentAt - b.sentAt)[0]!.sentAt += LATER_MS;
    },
  },
};

/** Rows of the table, for `test.each`. */
export const sabotageRows = Object.entries(sabotages).flatMap(([invariant, ways]) =>
  Object.entries(ways).map(([way, apply]) => ({
    invariant,
    way,
    /** A changed copy. */
    applied(seen: Seen): Seen {
      const copy = new Copy(seen);
      apply(copy);
      return copy.seen;
    },
  })),
);
