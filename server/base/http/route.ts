/** The type of a route. routes.ts lists all routes. */
import type { Exchange } from './exchange.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

/** Answers each exchange exactly once, synchronously or later. */
export type Handler = (exchange: Exchange) => void | Promise<void>;

export interface Route {
  method: Method;
  /** uWebSockets.js pattern: `:name` matches one segment. Also the route's label in metrics and logs. */
  path: string;
  handle: Handler;
  /** Methods in Allow; absent: its own. A route that answers most requests 405 itself names those that it serves. */
  allows?: readonly string[];
}
