/** Validates query parameters with a zod schema. */
import type { z } from 'zod';
import type { Exchange } from './exchange.ts';
import { check, problemMembers } from './issues.ts';

/** Returns the validated parameters. If they are invalid, answers the exchange and returns undefined. The last repeated value wins. */
export function parseQuery<T>(exchange: Exchange, schema: z.ZodType<T>): T | undefined {
  const result = check(schema, Object.fromEntries(new URLSearchParams(exchange.query)));
  if ('data' in result) return result.data;
  const members = problemMembers(result, ({ path, detail }) => ({ parameter: path.map(String).join('.'), detail }));
  exchange.problem('invalid_request', 'The member errors lists each invalid query parameter.', members);
  return undefined;
}
