/** The page interface, independent of HTTP and HTML: a page gets a request, calls API operations, and returns what to show. */

import type { OperationName } from '../api/routes.ts';
import type { Person } from '../auth/person.ts';
import type { Exchange } from '../http/exchange.ts';

/** The result of an API operation for a page. */
export type Called =
  // biome-ignore lint/suspicious/noExplicitAny: the document that API clients get, checked by the operation's schema
  | { kind: 'done'; status: number; body: any; tag: string; headers: Record<string, string> }
  /** Error messages by field name; '' is the form as a whole. */
  | { kind: 'invalid'; errors: Record<string, string> }
  | {
      kind: 'problem';
      status: number;
      code: string;
      title: string;
      detail: string;
      members: Record<string, unknown>;
      /** Time after which a retry may succeed; null when it would not. */
      retryAfterSeconds: number | null;
    };

export interface CallArguments {
  id?: string;
  query?: Record<string, string | undefined>;
  input?: unknown;
  /** The tag of the version that the form was rendered from: prevents overwriting another user's change unnoticed. */
  ifMatch?: string;
}

/** Calls an operation as the requesting user, with the same rules and checks as over HTTP. */
export type Call = (name: OperationName, given?: CallArguments) => Promise<Called>;

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
      retryAfterSeconds?: number | null;
    }
  /** After a change: 303 to a path of Weir; `notice` is a name in notices.ts. */
  | { kind: 'redirect'; to: string; notice?: string; headers?: Record<string, string> }
  /** `link`: the link on the page; defaults to the overview. */
  | (Extract<Called, { kind: 'problem' }> & { link?: { to: string; text: string } });

export type Page<Who = Person> = (request: PageRequest<Who>) => Promise<PageReply>;

export function view(
  name: string,
  title: string,
  data: object,
  feedback: { address?: string; status?: number; retryAfterSeconds?: number | null } = {},
): PageReply {
  return { kind: 'view', view: name, title, data, ...feedback };
}

export function redirect(to: string, notice?: string, headers: Record<string, string> = {}): PageReply {
  return { kind: 'redirect', to, headers, ...(notice === undefined ? {} : { notice }) };
}

/** A secondary list of a page; empty when the call failed. */
export function itemsOf(called: Called) {
  return called.kind === 'done' ? called.body : { items: [], next_cursor: null };
}

/** Shows a refused operation as a problem page, for pages without a form. */
export function asProblem(called: Exclude<Called, { kind: 'done' }>): PageReply {
  if (called.kind === 'problem') return called;
  const detail = Object.entries(called.errors)
    .map(([field, sentence]) => (field === '' ? sentence : `${field}: ${sentence}`))
    .join(' ');
  const title = 'Invalid request';
  return { kind: 'problem', status: 422, code: 'invalid_request', title, detail, members: {}, retryAfterSeconds: null };
}

/** The data of a list page. Invalid filters give an empty list, with errors beside the filters. */
export function listOf(called: Exclude<Called, { kind: 'problem' }>) {
  return called.kind === 'done'
    ? { page: called.body, errors: {} }
    : { page: { items: [], next_cursor: null }, errors: called.errors };
}
