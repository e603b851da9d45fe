/** Checks of input. */
import type { z } from 'zod';
import { check } from '../http/issues.ts';

/** Invalid input that only the database can detect, e.g. an unknown id. Rolls back the transaction. */
export class InputError extends Error {
  readonly path: readonly PropertyKey[];
  constructor(path: readonly PropertyKey[], detail: string) {
    super(detail);
    this.path = path;
  }
}

/** Validates the input of a command like the API does. Throws InputError that names every invalid field. */
export function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = check(schema, value);
  if ('data' in result) return result.data;
  const { issues, omitted } = result;
  const sentences = issues.map(({ path, detail }) => `${path.map(String).join('.')}: ${detail}`);
  if (omitted > 0) sentences.push(`And ${omitted} more.`);
  throw new InputError(issues[0]!.path, sentences.join(' '));
}
