/** Query parameters checked by a zod schema. */
import type { z } from 'zod';
import type { Exchange } from './exchange.ts';

/** The checked parameters; undefined when they are wrong, and then the exchange is answered. Of a repeated one the last counts. */
export function parseQuery<T>(exchange: Exchange, schema: z.ZodType<T>): T | undefined {
  const result = schema.safeParse(Object.fromEntries(new URLSearchParams(exchange.query)));
  if (result.success) return result.data;
  const errors = result.error.issues.map(({ path, message }) => ({
    parameter: path.map(String).join('.'),
    detail: message,
  }));
  exchange.problem('invalid_request', 'The member errors names each bad query parameter.', { errors });
  return undefined;
}
