/** Compares what clients were answered with what is stored, by the table of invariants. */

import type { Violation, Webhook } from './history.ts';
import {
  type Agent,
  History,
  type SentRequest,
  type Stored,
  type StoredDelivery,
  type StoredEvent,
} from './history.ts';
import { deliveryInvariants } from './invariants/deliveries.ts';
import { eventInvariants } from './invariants/events.ts';
import { leaseInvariants } from './invariants/leases.ts';
import type { Configuration } from './plan.ts';

/** What an invariant may look at. */
export interface Seen {
  configuration: Configuration;
  history: History;
  webhooks: readonly Webhook[];
  agents: readonly Agent[];
  stored: Stored;
}

export interface Indexed extends Seen {
  events: Map<string, StoredEvent>;
  eventsByMark: Map<string, StoredEvent[]>;
  deliveries: Map<string, StoredDelivery>;
  requestByMark: Map<string, SentRequest>;
  /** By the ids of its response. */
  requestByEvent: Map<string, SentRequest>;
  webhookByName: Map<string, Webhook>;
  agentById: Map<string, Agent>;
}

/** Yields a text for each violation. */
export type Invariant = (seen: Indexed) => Iterable<string>;

export const invariants: Readonly<Record<string, Invariant>> = {
  ...eventInvariants,
  ...deliveryInvariants,
  ...leaseInvariants,
};

/** Texts of one invariant that are kept. */
const TEXTS_MAX = 5;

export function check(seen: Seen): Violation[] {
  const all = Object.keys(invariants);
  const restored = seen.history.backups.flatMap((backup) =>
    violationsOf(allBefore(seen, backup), ofBackups).map(({ invariant, text }) => ({
      invariant: `in a backup: ${invariant}`,
      text,
    })),
  );
  return [...seen.history.observed, ...violationsOf(seen, all), ...restored];
}

/** What holds in a backup. Deliveries are in any state there. */
const ofBackups = [
  'an id belongs to one event',
  'a request that was answered 202 is stored',
  'a request is stored once',
  'a key is stored once, and not lost',
  'a batch is stored as a whole',
  'an event has the bytes of its request',
  'an id belongs to one delivery',
  'each subscription has one delivery of an event',
  'a delivery has its event',
];

/** What was seen before a backup began, and what it has. Events in a spool are not in it. */
function allBefore(seen: Seen, { sentAt, stored }: History['backups'][number]): Seen {
  const requests = seen.history.requests.map((sent) =>
    sent.answeredAt < sentAt && !seen.configuration.spool ? sent : { ...sent, status: null },
  );
  const jobs = seen.history.jobs.map((job) => ({ ...job, state: null }));
  const history = Object.assign(Object.create(History.prototype), seen.history, { requests, jobs });
  return { ...seen, history, stored };
}

function violationsOf(seen: Seen, names: readonly string[]): Violation[] {
  const { history, stored, webhooks, agents } = seen;
  const indexed: Indexed = {
    ...seen,
    events: new Map(stored.events.map((event) => [event.id, event])),
    eventsByMark: groups(stored.events, ({ mark }) => mark),
    deliveries: new Map(stored.deliveries.map((delivery) => [delivery.id, delivery])),
    requestByMark: new Map(history.requests.flatMap((sent) => sent.parts.map(({ mark }) => [mark, sent] as const))),
    requestByEvent: new Map(history.requests.flatMap((sent) => sent.ids.map((id) => [id, sent] as const))),
    webhookByName: new Map(webhooks.map((webhook) => [webhook.name, webhook])),
    agentById: new Map(agents.map((agent) => [agent.id, agent])),
  };
  return names.flatMap((invariant) => {
    const texts = [...invariants[invariant]!(indexed)];
    const more = texts.length > TEXTS_MAX ? [`and ${texts.length - TEXTS_MAX} more`] : [];
    return [...texts.slice(0, TEXTS_MAX), ...more].map((text) => ({ invariant, text: text.slice(0, 700) }));
  });
}

export function groups<T>(list: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const one of list) {
    const key = keyOf(one);
    const group = found.get(key);
    if (group === undefined) found.set(key, [one]);
    else group.push(one);
  }
  return found;
}
