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
  ingest: (exchange: Exchange) => Promise<void>;
}

/** Method, path, handler, and what it answers, for people. */
export const routes = [
  ['GET', '/healthz', 'live', '200 while the process is alive'],
  ['GET', '/readyz', 'ready', '200 when a webhook sent now would be stored; else 503, with the failing check named'],
  ['POST', '/in/:webhook_id', 'ingest', '202 once the event is committed; else one of the errors below'],
] as const satisfies readonly (readonly [Route['method'], string, keyof Handlers, string])[];

export function routeTable(handlers: Handlers): Route[] {
  return routes.map(([method, path, handler]) => ({ method, path, handle: handlers[handler] }));
}
