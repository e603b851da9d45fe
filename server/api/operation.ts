/** An API operation, independent of HTTP. Its zod schemas for input and output are used for validation and documentation. */
import type { z } from 'zod';
import type { Actor } from '../audit/actor.ts';
import type { Person, Reader } from '../auth/person.ts';
import type { ProblemCode } from '../errors.ts';
import type { Exchange } from '../http/exchange.ts';

/** A reply: a success, or one row of the table of errors. */
export type Reply =
  | { kind: 'done'; status: number; body?: unknown; headers?: Record<string, string> }
  | {
      kind: 'problem';
      code: ProblemCode;
      detail?: string;
      members?: Record<string, unknown>;
      /** For 429 and 503. */
      retryAfterSeconds?: number;
    };

/** Description of a response with bytes instead of JSON. */
export interface AnswerBytes {
  contentType: string;
  /** Header fields and their descriptions. */
  headers?: Readonly<Record<string, string>>;
}

interface ApiRequest<Who, Query, Input> {
  /** Authenticated and authorized; null on routes open to anyone. */
  who: Who;
  /** Id in the path, validated by the operation's `id`; '' without one. */
  id: string;
  query: Query;
  input: Input;
  /** `who` as an actor in the audit log. */
  actor: Actor;
  /** False if the request has an If-Match that the given representation, which is about to be changed, does not meet. */
  matches(representation: unknown): boolean;
  exchange: Exchange;
}

export interface Operation<Who = Person, Query = unknown, Input = unknown> {
  /** Schema of the id in the path. Text that does not match is answered with `problem`, like an unknown id. */
  id?: { schema: z.ZodType<string>; problem: ProblemCode };
  query?: z.ZodType<Query>;
  /** The JSON body. Without a schema, no body is read. */
  input?: z.ZodType<Input>;
  /** Body of each success status; null: no body. Members that the schema does not name are not sent. */
  answers: Readonly<Record<number, z.ZodType | null>>;
  /** For a 200 without a schema. */
  bytes?: AnswerBytes;
  /**
   * Schema of the GET response for the resource that this operation changes. If-Match refers to it, and a response with this
   * schema has its ETag.
   */
  representation?: z.ZodType;
  /** Refuses API tokens and JWTs with 403 `session_required`, because the operation concerns the requester's own account. */
  sessionOnly?: true;
  /** Creates something at each call. With an Idempotency-Key it runs once. */
  idempotent?: true;
  /** Problems in addition to those of its access and inputs. */
  problems?: readonly ProblemCode[];
  handle(request: ApiRequest<Who, Query, Input>): Promise<Reply>;
}

/** An operation for users. This function only infers the types. */
export function operation<Query, Input>(given: Operation<Person, Query, Input>): Operation<Person, Query, Input> {
  return given;
}

/** An operation of a mixed route: for users or, without one, for an agent, which sees only its own data. */
export function readerOperation<Query, Input>(given: Operation<Reader, Query, Input>): Operation<Reader, Query, Input> {
  return given;
}

/** An operation for anyone, signed in or not. Changes requested by pages of other sites are refused. */
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

/**
 * A field that its schema alone cannot validate.
 * @param pointer RFC 6901, e.g. `/password`
 */
export function invalid(pointer: string, detail: string): Reply {
  return problem('invalid_request', undefined, { errors: [{ pointer, detail }] });
}
