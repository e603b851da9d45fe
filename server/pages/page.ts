/** The page interface, independent of HTTP and HTML: a page gets a request, calls API operations, and returns what to show. */

import type { Exchange } from '../base/http/exchange.ts';
import { type Problem, problem } from '../base/http/problem.ts';
import { within } from '../base/time/every.ts';
import type { OperationName } from '../manage/api/routes.ts';
import type { Person } from '../manage/auth/person.ts';
import type { Call, CallArguments, Called, Invalid } from './call.ts';

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
