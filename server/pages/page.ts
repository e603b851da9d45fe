/** The page interface, independent of HTTP and HTML: a page gets a request, calls API operations as its user, and returns what to show. */

import type { Exchange } from '../base/http/exchange.ts';
import { type Problem, problem } from '../base/http/problem.ts';
import { recordOf } from '../base/http/record.ts';
import { within } from '../base/time/every.ts';
import type { Success } from '../manage/api/operation.ts';
import type { Operations } from '../manage/api/operations.ts';
import type { OperationName } from '../manage/api/routes.ts';
import type { Runner } from '../manage/api/runner.ts';
import type { Person } from '../manage/auth/person.ts';
import { confirmationOf } from '../model/confirmations.ts';
import type { Named, NamedTable, NewestNames } from '../store/queries/names.ts';

export interface PageRequest<Who = Person> {
  person: Who;
  /** The id in the path; '' when the path has none. */
  id: string;
  query: URLSearchParams;
  /** Form fields; empty for GET. */
  form: URLSearchParams;
  call: Call;
  exchange: Exchange;
}

export type PageReply =
  /** `view`: path below views/ without extension; `data`: its input; 422 for a form with errors; `address`: URL of a created resource. */
  | {
      kind: 'view';
      view: string;
      title: string;
      data: object;
      address?: string;
      status?: number;
      retryAfterSeconds?: number | undefined;
      /** The page shows a value that is shown only once. */
      once?: boolean;
      /** Origin outside of Weir to which the form of the page leads. */
      formTo?: string;
      /** The data are the same for every client: without a person, the page is made once, under this name. */
      stored?: string;
    }
  /** After a change: 303 to a path of Weir, or to an address that was checked; `notice` is a name in serve/notices.ts. */
  | { kind: 'redirect'; to: string; notice?: string; headers?: Record<string, string> }
  /** `link`: the link on the page; defaults to the overview. `retries`: the page opens the link itself once it works. */
  | (Problem & { link?: { to: string; text: string }; retries?: boolean });

type View = Extract<PageReply, { kind: 'view' }>;

export interface Page<Who = Person> {
  (request: PageRequest<Who>): Promise<PageReply>;
  /** The page has its own rate limit, so the limit of requests without valid credentials does not apply. */
  countsRequests?: true;
}

export function view(
  name: string,
  title: string,
  data: object,
  feedback: Pick<View, 'address' | 'status' | 'retryAfterSeconds' | 'once' | 'stored' | 'formTo'> = {},
): View {
  return { kind: 'view', view: name, title, data, ...feedback };
}

/** Error messages by field, and the response status of the page. */
export interface FormFeedback {
  /** Key '' is the form as a whole, see partials/form-error. */
  errors: Record<string, string>;
  status: number;
  retryAfterSeconds?: number | undefined;
}

/** A page with a form, with what was typed in `data`, and its errors. */
export function formView(name: string, title: string, data: object, { errors, ...feedback }: FormFeedback): View {
  return view(name, title, { ...data, errors }, feedback);
}

export function redirect(to: string, notice?: string, headers: Record<string, string> = {}): PageReply {
  return { kind: 'redirect', to, headers, ...(notice === undefined ? {} : { notice }) };
}

/** A list operation, as far as every list has the same body. */
type Listed<Body> = { kind: 'done'; body: Body } | Invalid | Problem;
type EmptyPage = { items: never[]; next_cursor: null; cells_away?: undefined };

/** A secondary list of a page; empty when the call failed. */
export function itemsOf<Body>(called: Listed<Body>): Body | EmptyPage {
  return called.kind === 'done' ? called.body : emptyPage;
}

/** Time for a part of a page: the page does not wait longer for it. */
export const PART_MS_MAX = 2_000;

/** A part of a page; null when the call failed or is not answered in time, which the page says. */
export async function partOf<Body>(calling: Promise<Listed<Body>>): Promise<Body | null> {
  const called = await within(PART_MS_MAX, calling);
  return called?.kind === 'done' ? called.body : null;
}

/** Shows a refused operation as a problem page, for pages without a form. */
export function asProblem(called: Invalid | Problem): PageReply {
  if (called.kind === 'problem') return called;
  const detail = Object.entries(called.errors)
    .map(([field, sentence]) => (field === '' ? sentence : `${field}: ${sentence}`))
    .join(' ');
  return problem('invalid_request', detail);
}

/** A page that carries out one operation, on the id in the path unless `givenOf` says more. A refused one is a problem page. */
export function action<Name extends OperationName>(
  operation: Name,
  replyOf: (done: Extract<Called<Name>, { kind: 'done' }>, request: PageRequest) => PageReply | Promise<PageReply>,
  givenOf: (request: PageRequest) => CallArguments = () => ({}),
): Page {
  return async (request) => {
    const called: Called = await request.call(operation, { id: request.id, ...givenOf(request) });
    return called.kind === 'done'
      ? replyOf(called as Extract<Called<Name>, { kind: 'done' }>, request)
      : asProblem(called);
  };
}

/** The data of a list page. Invalid filters give an empty list, with errors beside the filters. */
export function listOf<Body>(called: Exclude<Listed<Body>, Problem>): {
  page: Body | EmptyPage;
  errors: Record<string, string>;
} {
  return called.kind === 'done' ? { page: called.body, errors: {} } : { page: emptyPage, errors: called.errors };
}

export const emptyPage: EmptyPage = { items: [], next_cursor: null };

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
