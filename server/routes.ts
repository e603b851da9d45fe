/** Every route of Weir, one line each. */
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

export function routeTable({ live, ready, ingest }: Handlers): Route[] {
  return [
    { method: 'GET', path: '/healthz', handle: live },
    { method: 'GET', path: '/readyz', handle: ready },
    { method: 'POST', path: '/in/:webhook_id', handle: ingest },
  ];
}
