/** Answers of a server that are used elsewhere: in another database, as the name of a file. A server may be hostile, or not be Postgres. */
import type { z } from 'zod';
import { DatabaseUnavailable } from './unavailable.ts';

/** Returns an answer of this form. Throws DatabaseUnavailable for any other. */
export function expected<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { success, data } = schema.safeParse(answer);
  if (success) return data;
  throw new DatabaseUnavailable(new Error('the server does not answer as the database of Weir does'));
}
