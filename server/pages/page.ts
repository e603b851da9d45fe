/** What a page is, apart from HTTP and HTML: it is asked, calls operations of the API, and says what to show. */

import type { OperationName } from '../api/routes.ts';
import type { Person } from '../auth/person.ts';
import type { Exchange } from '../http/exchange.ts';

/** What an operation of the API said to a page. */
export type Called =
  // biome-ignore lint/suspicious/noExplicitAny: the document that API clients get, checked by the operation's schema
  | { kind: 'done'; status: number; body: any; tag: string; headers: Record<string, string> }
  /** Sentences by the name of the field that they stand beside; '' is the form as a whole. */
  | { kind: 'invalid'; errors: Record<string, string> }
  | {
      kind: 'problem';
      status: number;
      code: string;
      title: string;
      detail: string;
      members: Record<string, unknown>;
      /** When it may help to ask again, where it may. */
      retryAfterSeconds: number | null;
    };

export interface CallArguments {
  id?: string;
  query?: Record<string, string | undefined>;
  input?: unknown;
  /** The tag of what the form was made from: a change that somebody else made meanwhile is not undone unseen. */
  ifMatch?: string;
}

/** Does an operation as the person who asks, by the same rules and checks as over HTTP. */
export type Call = (name: OperationName, given?: CallArguments) => Promise<Called>;

export interface PageRequest<Who = Person> {
  person: Who;
  /** Of the path; '' where it has none. */
  id: string;
  query: URLSearchParams;
  /** Fields of the form; empty for GET. */
  form: URLSearchParams;
  call: Call;
  exchange: Exchange;
}

export type PageReply =
  /** `view` below views/, without its ending; `data` is what it shows; 422 when a form comes back with errors. `address`: of what a form made. */
  | {
      kind: 'view';
      view: string;
      title: string;
      data: object;
      address?: string;
      status?: number;
      retryAfterSeconds?: number | null;
    }
  /** After a change: 303 to a path of ours; `notice` is a name in notices.ts. */
  | { kind: 'redirect'; to: string; notice?: string; headers?: Record<string, string> }
  /** `wayOn`: the link from there, else to the overview. */
  | (Extract<Called, { kind: 'problem' }> & { wayOn?: { to: string; text: string } });

export type Page<Who = Person> = (request: PageRequest<Who>) => Promise<PageReply>;

export function view(
  name: string,
  title: string,
  data: object,
  told: { address?: string; status?: number; retryAfterSeconds?: number | null } = {},
): PageReply {
  return { kind: 'view', view: name, title, data, ...told };
}

export function redirect(to: string, notice?: string, headers: Record<string, string> = {}): PageReply {
  return { kind: 'redirect', to, headers, ...(notice === undefined ? {} : { notice }) };
}

/** A list that a page shows beside its main thing; empty when it cannot be had. */
export function itemsOf(called: Called) {
  return called.kind === 'done' ? called.body : { items: [], next_cursor: null };
}

/** What an operation refused, where the page has no form to show it in. */
export function asProblem(called: Exclude<Called, { kind: 'done' }>): PageReply {
  if (called.kind === 'problem') return called;
  const detail = Object.entries(called.errors)
    .map(([field, sentence]) => (field === '' ? sentence : `${field}: ${sentence}`))
    .join(' ');
  const title = 'This cannot be done';
  return { kind: 'problem', status: 422, code: 'invalid_request', title, detail, members: {}, retryAfterSeconds: null };
}

/** A list as its page shows it: empty, with sentences beside the filters, when those were wrong. */
export function listOf(called: Exclude<Called, { kind: 'problem' }>) {
  return called.kind === 'done'
    ? { page: called.body, errors: {} }
    : { page: { items: [], next_cursor: null }, errors: called.errors };
}
