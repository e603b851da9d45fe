/** Every route of Weir, one line each. The README's table is generated from it. */
import type { Exchange } from './http/exchange.ts';

export interface Route {
  method: 'GET' | 'POST';
  /** As uWebSockets.js matches it: `:name` is one segment. Also the label of the route in metrics and logs. */
  path: string;
  handle: (exchange: Exchange) => void | Promise<void>;
}

/** The handlers that the table names; app.ts builds them. */
export interface Handlers {
  live: Route['handle'];
  ready: Route['handle'];
  ingest: Route['handle'];
  ingestBatch: Route['handle'];
  agentSession: Route['handle'];
  agentMe: Route['handle'];
  claim: Route['handle'];
  ack: Route['handle'];
  nack: Route['handle'];
  extend: Route['handle'];
  listEvents: Route['handle'];
  oneEvent: Route['handle'];
  eventBody: Route['handle'];
  listDeliveries: Route['handle'];
}

/** Method, path, handler, and what it answers, for people. */
export const routes = [
  ['GET', '/healthz', 'live', '200 while the process is alive'],
  ['GET', '/readyz', 'ready', '200 when a webhook sent now would be stored; else 503, with the failing check named'],
  ['POST', '/in/:webhook_id', 'ingest', '202 once the event is committed, 200 for a repeat; else an error below'],
  ['POST', '/in/:webhook_id/batch', 'ingestBatch', '202 once every line is committed as an event; else an error below'],
  ['POST', '/api/v1/agent/session', 'agentSession', 'a session for an agent credential'],
  ['GET', '/api/v1/agent/me', 'agentMe', 'the agent itself'],
  ['POST', '/api/v1/agent/deliveries/claim', 'claim', 'deliveries under lease; waits for some when there are none'],
  ['POST', '/api/v1/agent/deliveries/ack', 'ack', 'which receipts are done, and which leases were lost'],
  ['POST', '/api/v1/agent/deliveries/nack', 'nack', 'the same, for deliveries that are to be tried again'],
  ['POST', '/api/v1/agent/deliveries/extend', 'extend', 'the same, for leases that need more time'],
  ['GET', '/api/v1/events', 'listEvents', 'events, newest first; an agent sees those that were on their way to it'],
  ['GET', '/api/v1/events/:id', 'oneEvent', 'one event without its body'],
  ['GET', '/api/v1/events/:id/body', 'eventBody', 'the stored bytes, unchanged, as an attachment'],
  ['GET', '/api/v1/deliveries', 'listDeliveries', 'deliveries, newest first; an agent sees its own'],
] as const satisfies readonly (readonly [Route['method'], string, keyof Handlers, string])[];

export function routeTable(handlers: Handlers): Route[] {
  return routes.map(([method, path, handler]) => ({ method, path, handle: handlers[handler] }));
}
