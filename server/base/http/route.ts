/** The type of a route, and which methods each path answers with 405. routes.ts lists all routes. */
import type { Exchange } from './exchange.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

/** Answers each exchange exactly once, synchronously or later. */
export type RouteHandler = (exchange: Exchange) => void | Promise<void>;

export interface Route {
  method: Method;
  /** uWebSockets.js pattern: `:name` matches one segment. Also the route's label in metrics and logs. */
  path: string;
  handle: RouteHandler;
  /** Methods in Allow; absent: its own. A route that answers most requests 405 itself names those that it serves. */
  allows?: readonly string[];
}

/** Number of parameters in the path of a route. */
export function parametersIn(path: string): number {
  return path.split(':').length - 1;
}

/** How other methods at the path of a route are answered: 405. */
interface PathRule {
  path: string;
  /** Methods in Allow. */
  allow: string;
  /**
   * Methods that this path lacks, of other routes whose pattern matches it. uWebSockets.js matches the method before the path: without a rule,
   * GET /events/replay, a path with POST only, would be served as GET /events/:id.
   */
  others: Method[];
}

/** A rule for each path. A wildcard route has no fixed method list, so it never answers 405. */
export function pathRules(routes: readonly Route[]): PathRule[] {
  const methodsOf = new Map<string, string[]>();
  for (const { method, path, allows } of routes) {
    const methods = methodsOf.get(path) ?? [];
    methods.push(...(allows ?? (method === 'GET' ? ['GET', 'HEAD'] : [method])));
    methodsOf.set(path, methods);
  }
  return [...methodsOf]
    .filter(([path]) => !path.endsWith('*'))
    .map(([path, methods]) => {
      const patterns = routes.filter((other) => other.path !== path && matches(other.path, path));
      const others = patterns.map(({ method }) => method).filter((method) => !methods.includes(method));
      return { path, allow: methods.join(', '), others };
    });
}

/** Whether the pattern of another route matches this path: /events/:id matches /events/replay. */
function matches(pattern: string, path: string): boolean {
  const parts = path.split('/');
  const wanted = pattern.split('/');
  const fits = (part: string, index: number) =>
    part === parts[index] || (part.startsWith(':') && !parts[index]!.startsWith(':'));
  return wanted.length === parts.length && wanted.every(fits);
}
