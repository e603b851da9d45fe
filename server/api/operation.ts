/** What an API route does, apart from HTTP: what it takes and gives as zod schemas, from which it is validated and documented. */
import type { z } from 'zod';
import type { Actor } from '../audit/actor.ts';
import type { Person } from '../auth/person.ts';
import type { Reader } from '../auth/reader.ts';
import type { ProblemCode } from '../errors.ts';
import type { Exchange } from '../http/exchange.ts';

/** An answer: what went well, or one row of the table of errors. */
export type Reply =
  | { kind: 'done'; status: number; body?: unknown; headers?: Record<string, string> }
  | {
      kind: 'problem';
      code: ProblemCode;
      detail?: string;
      members?: Record<string, unknown>;
      /** Of 429 and 503. */
      retryAfterSeconds?: number;
    };

/** What an operation that sends bytes of its own says of them. */
export interface AnswerBytes {
  contentType: string;
  /** Header fields and what they say. */
  headers?: Readonly<Record<string, string>>;
}

interface ApiRequest<Who, Query, Input> {
  /** Recognized, and in a role that may do this; null where anyone may. */
  who: Who;
  /** Of the path; '' where it has none. Checked against the operation's `id`. */
  id: string;
  query: Query;
  input: Input;
  /** `who` as the audit log names it. */
  actor: Actor;
  /** False when the request has an If-Match that this representation, which is about to be changed, does not meet. */
  matches(representation: unknown): boolean;
  exchange: Exchange;
}

export interface Operation<Who = Person, Query = unknown, Input = unknown> {
  /** What the path's id must be, where it has one; any other text is answered with `problem`, like an id that does not exist. */
  id?: { schema: z.ZodType<string>; problem: ProblemCode };
  query?: z.ZodType<Query>;
  /** The JSON body. Without it none is read. */
  input?: z.ZodType<Input>;
  /** The body of each status that means success; null: none. Members that the schema does not name are not sent. */
  answers: Readonly<Record<number, z.ZodType | null>>;
  /** Of an answer 200 without a schema. */
  bytes?: AnswerBytes;
  /** What GET answers for the resource that this one changes: If-Match is about it, and an answer of this schema carries its ETag. */
  representation?: z.ZodType;
  /** Refuses API tokens and JWTs with 403 `session_required`: it concerns the requester's own account. */
  sessionOnly?: true;
  /** It makes something new each time: with an Idempotency-Key it is done once. */
  idempotent?: true;
  /** Beside those that its access brings. */
  problems?: readonly ProblemCode[];
  handle(request: ApiRequest<Who, Query, Input>): Promise<Reply>;
}

/** An operation for users; the call is there to infer its types. */
export function operation<Query, Input>(given: Operation<Person, Query, Input>): Operation<Person, Query, Input> {
  return given;
}

/** An operation of a mixed route: for users or, where none is signed in, for an agent, who sees only its own. */
export function readerOperation<Query, Input>(given: Operation<Reader, Query, Input>): Operation<Reader, Query, Input> {
  return given;
}

/** An operation for anyone, signed in or not; where it changes something, other sites' pages are refused. */
export function openOperation<Query, Input>(given: Operation<null, Query, Input>): Operation<null, Query, Input> {
  return given;
}

export function done(status: number, body?: unknown, headers?: Record<string, string>): Reply {
  return { kind: 'done', status, body, ...(headers === undefined ? {} : { headers }) };
}

export function problem(code: ProblemCode, detail?: string, members?: Record<string, unknown>): Reply {
  return {
    kind: 'problem',
    code,
    ...(detail === undefined ? {} : { detail }),
    ...(members === undefined ? {} : { members }),
  };
}

/** For 429 and 503. */
export function problemLater(code: ProblemCode, retryAfterSeconds: number): Reply {
  return { kind: 'problem', code, retryAfterSeconds };
}

/** A field that its schema alone could not judge. @param pointer RFC 6901, e.g. `/password`. */
export function invalid(pointer: string, detail: string): Reply {
  return problem('invalid_request', undefined, { errors: [{ pointer, detail }] });
}
