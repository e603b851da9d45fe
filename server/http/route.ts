/** What the server needs to know of a route; routes.ts has them all. */
import type { Exchange } from './exchange.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'OPTIONS';

/** Answers each exchange once, now or later. */
export type Handler = (exchange: Exchange) => void | Promise<void>;

export interface Route {
  method: Method;
  /** As uWebSockets.js matches it: `:name` is one segment. Also the label of the route in metrics and logs. */
  path: string;
  handle: Handler;
}
