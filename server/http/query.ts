/** Query parameters checked by a zod schema. */
import type { z } from 'zod';
import type { Exchange } from './exchange.ts';
import { check, problemMembers } from './issues.ts';

/** The checked parameters; undefined when they are wrong, and then the exchange is answered. Of a repeated one the last counts. */
export function parseQuery<T>(exchange: Exchange, schema: z.ZodType<T>): T | undefined {
  const result = check(schema, Object.fromEntries(new URLSearchParams(exchange.query)));
  if ('data' in result) return result.data;
  const members = problemMembers(result, ({ path, detail }) => ({ parameter: path.map(String).join('.'), detail }));
  exchange.problem('invalid_request', 'The member errors names each bad query parameter.', members);
  return undefined;
}
