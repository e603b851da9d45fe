/** What a zod schema finds wrong with input: a sentence for each bad field, fit to stand beside it. */
import { z } from 'zod';

export interface FieldIssue {
  path: readonly PropertyKey[];
  /** E.g. `Give at least 1.` */
  detail: string;
}

/** Checks input by a schema. A message of the schema's own goes before the general ones below. */
export function check<T>(schema: z.ZodType<T>, value: unknown): { data: T } | { issues: FieldIssue[] } {
  const result = schema.safeParse(value, { error: describe });
  if (result.success) return { data: result.data };
  return { issues: result.error.issues.flatMap((issue) => issuesOf(issue, schema)) };
}

/** RFC 6901. */
export function jsonPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** Unknown fields are one issue to zod; here each is its own, with the names that there are. */
function issuesOf(issue: z.core.$ZodIssue, schema: z.ZodType): FieldIssue[] {
  if (issue.code !== 'unrecognized_keys') return [{ path: issue.path, detail: issue.message }];
  const known = issue.path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const detail = `This is not known here${known.length === 0 ? '' : `; known are ${known.join(', ')}`}.`;
  return issue.keys.map((key) => ({ path: [...issue.path, key], detail }));
}

/** By zod's names of types and formats. */
const wanted: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  guid: 'an id, such as 2f1c0d7e-5a31-4c8e-9b1f-0d6c2a7e4b15',
  email: 'an email address',
  datetime: 'a time, such as 2030-01-31T12:00:00Z',
};

function describe(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'This is required.' : give(wanted[issue.expected]);
    case 'invalid_format':
      return give(wanted[issue.format]);
    case 'invalid_value':
      return give(`one of ${issue.values.map(String).join(', ')}`);
    case 'too_small':
      return give(`at least ${issue.minimum}${unit(issue.origin, issue.minimum)}`);
    case 'too_big':
      return give(`at most ${issue.maximum}${unit(issue.origin, issue.maximum)}`);
    default:
      return undefined;
  }
}

function give(what: string | undefined): string | undefined {
  return what && `Give ${what}.`;
}

function unit(origin: string, count: number | bigint): string {
  const name = { string: ' character', array: ' item' }[origin];
  return name === undefined ? '' : count === 1 ? name : `${name}s`;
}
