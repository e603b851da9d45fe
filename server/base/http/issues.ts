/** Validates input with a zod schema and reports one sentence for each invalid field, suitable for display beside the field. */
import { z } from 'zod';
import { type Problem, problem } from './problem.ts';

/** Maximum issues reported for one input; further issues are only counted. */
const ISSUES_MAX = 20;
/** Maximum UTF-16 units of a reported name. A sender chooses the names of unknown fields. */
const NAME_UNITS_MAX = 100;

interface FieldIssue {
  path: readonly PropertyKey[];
  /** E.g. `Give at least 1.` */
  detail: string;
}

/** The first ISSUES_MAX issues of an input, and the number of further ones. */
interface Refusal {
  issues: FieldIssue[];
  /** Number of issues not listed. */
  omitted: number;
}

/** Validates input with a schema. A message defined in the schema takes precedence over the general messages below. */
export function check<T>(schema: z.ZodType<T>, value: unknown): { data: T } | Refusal {
  const result = schema.safeParse(value, { error: describe });
  if (result.success) return { data: result.data };
  const found = result.error.issues;
  const issues: FieldIssue[] = [];
  for (const issue of found) {
    if (issues.length >= ISSUES_MAX) break;
    issues.push(...issuesOf(issue, schema, ISSUES_MAX - issues.length));
  }
  const total = found.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0);
  return { issues, omitted: total - issues.length };
}

/** The problem of an invalid JSON body: each field by its JSON Pointer. */
export function invalidBody(refusal: Refusal): Problem {
  return problem(
    'invalid_request',
    undefined,
    members(refusal, (path) => ({ pointer: jsonPointer(path) })),
  );
}

/** The problem of invalid query parameters, each by its name. */
export function invalidQuery(refusal: Refusal): Problem {
  const named = members(refusal, (path) => ({ parameter: path.map(String).join('.') }));
  return problem('invalid_request', 'The member errors lists each invalid query parameter.', named);
}

/** `errors_omitted` is present if issues were left out. */
function members({ issues, omitted }: Refusal, locate: (path: FieldIssue['path']) => object) {
  const errors = issues.map(({ path, detail }) => ({ ...locate(path), detail }));
  return { errors, ...(omitted > 0 ? { errors_omitted: omitted } : {}) };
}

/** Formats a path as a JSON Pointer (RFC 6901). */
function jsonPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** Splits zod's single issue for all unknown fields into one issue for each of the first `max` fields, with the list of known names. */
function issuesOf(issue: z.core.$ZodIssue, schema: z.ZodType, max: number): FieldIssue[] {
  if (issue.code !== 'unrecognized_keys') return [{ path: issue.path.map(shortened), detail: issue.message }];
  const known = issue.path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const detail = `This field is unknown${known.length === 0 ? '' : `; allowed: ${known.join(', ')}`}.`;
  return issue.keys.slice(0, max).map((key) => ({ path: [...issue.path, key].map(shortened), detail }));
}

function shortened(name: PropertyKey): PropertyKey {
  return typeof name === 'string' && name.length > NAME_UNITS_MAX ? `${name.slice(0, NAME_UNITS_MAX)}…` : name;
}

/** What to ask for, by zod's type or format name. */
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
    case 'unrecognized_keys':
      // Otherwise zod joins all names into one sentence. issuesOf writes one sentence for each name.
      return 'This field is unknown.';
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
