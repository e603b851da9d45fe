/** Calls API operations from a page as the requesting user, with the same rules and checks as over HTTP. */

import type { Exchange } from '../base/http/exchange.ts';
import { type Problem, problem } from '../base/http/problem.ts';
import { recordOf } from '../base/http/record.ts';
import type { Success } from '../manage/api/operation.ts';
import type { Operations } from '../manage/api/operations.ts';
import type { OperationName } from '../manage/api/routes.ts';
import type { Runner } from '../manage/api/runner.ts';
import type { Person } from '../manage/auth/person.ts';
import { confirmationOf } from '../model/confirmations.ts';
import type { Named, NamedTable, NewestNames } from '../store/queries/names.ts';

/** Error messages by field name; '' is the form as a whole. */
export interface Invalid {
  kind: 'invalid';
  errors: Record<string, string>;
}

/** The result of an operation, with the body that API clients get. */
export type Called<Name extends OperationName = OperationName> =
  | Success<Operations[Name]['answers']>
  | Invalid
  | Problem;

/** The body of an operation that is done. */
export type BodyOf<Name extends OperationName> = Success<Operations[Name]['answers']>['body'];

export interface CallArguments {
  id?: string;
  innerId?: string;
  query?: Record<string, string | undefined>;
  input?: unknown;
  /** The tag of the version that the form was rendered from: prevents overwriting another change unnoticed. */
  ifMatch?: string;
  /** Name of the target, which the person has typed to confirm an operation that asks for it. */
  name?: string;
  /** Milliseconds after which a search of events ends with what it has found; absent: that of the API. */
  withinMs?: number | undefined;
}

export interface Call {
  <Name extends OperationName>(name: Name, given?: CallArguments): Promise<Called<Name>>;
  readonly names: Names;
}

/** Reads names, which every user sees. Rejects with DatabaseUnavailable. */
export interface Names {
  of(table: NamedTable, ids: readonly string[]): Promise<Named[]>;
  newest(table: NamedTable, which: NewestNames): Promise<Named[]>;
}

/**
 * Creates the call function for this user and request. Refuses an operation that needs a confirmation (model/confirmations.ts) which the
 * form does not have.
 * @param person null when not signed in.
 */
export function createCall(
  runner: Runner,
  names: Names,
  person: Person | null,
  exchange: Exchange,
  form: URLSearchParams,
): Call {
  const call = async <Name extends OperationName>(
    operation: Name,
    { id = '', innerId = '', query = {}, input = {}, ifMatch, name = '', withinMs }: CallArguments = {},
  ): Promise<Called<Name>> => {
    const unconfirmed = unconfirmedOf(operation, input, form, name);
    if (unconfirmed !== null) return unconfirmed;
    const outcome = await runner.run(operation, {
      requester: person === null ? { kind: 'anyone' } : { kind: 'user', person },
      id,
      innerId,
      query: withoutEmpty(query),
      input: async () => ({ kind: 'parsed', value: input }),
      ifMatch,
      // The page has checked the token of its form.
      isForged: () => false,
      exchange,
      withinMs,
    });
    if (outcome.kind === 'problem') return refused(outcome);
    if (outcome.kind === 'done') return outcome;
    throw new Error(`${operation} returns no document that a page can show`);
  };
  return Object.assign(call, { names });
}

/** Refuses an operation that the field `confirmed`, which partials/confirm sends, does not confirm; null: it may be carried out. */
function unconfirmedOf(
  operation: OperationName,
  input: unknown,
  form: URLSearchParams,
  name: string,
): Invalid | Problem | null {
  const asked = confirmationOf(operation, input);
  const confirmed = form.get('confirmed')?.trim().toLowerCase() ?? '';
  if (asked === null || (asked.by === 'name' ? confirmed === name.toLowerCase() && name !== '' : confirmed !== ''))
    return null;
  if (asked.by === 'name') return { kind: 'invalid', errors: { confirmed: `Type ${name} to confirm.` } };
  return problem('invalid_request', `Open the page again and confirm the change first. ${asked.consequence}`);
}

/** Errors of single fields are shown beside the field: the first one of each, and of a field with JSON those of its members. */
function refused(problem: Problem): Invalid | Problem {
  if (problem.code !== 'invalid_request') return problem;
  const errors = recordOf<string>();
  const { errors: given, errors_omitted: omitted = 0 } = problem.members as unknown as InvalidMembers;
  for (const { pointer, parameter, detail } of given) {
    const [field = '', ...inner] = pointer?.split('/').slice(1) ?? parameter?.split('.') ?? [];
    const member = inner.filter((name) => !/^\d+$/.test(name)).join('.');
    if (member === '') errors[field] ??= detail;
    else errors[field] = [errors[field], `Member ${member}: ${detail}`].filter(Boolean).join(' ');
  }
  if (omitted > 0) errors[''] ??= `${omitted} more problems are not shown.`;
  return { kind: 'invalid', errors };
}

/** Members of `invalid_request`. */
interface InvalidMembers {
  errors: { pointer?: string; parameter?: string; detail: string }[];
  errors_omitted?: number;
}

/** Removes empty values: a form sends an empty field as ''. */
function withoutEmpty(query: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== ''),
  );
}
