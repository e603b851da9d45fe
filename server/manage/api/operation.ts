/** An API operation, independent of HTTP. Its zod schemas for input and output are used for validation and documentation. */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { tagsIn } from '../../base/http/conditional.ts';
import type { Exchange, Unanswered } from '../../base/http/exchange.ts';
import { type Problem, problem, problemLater, type Result } from '../../base/http/problem.ts';
import type { ProblemCode } from '../../model/errors.ts';
import { allows } from '../../model/users.ts';
import type { Actor } from '../../store/audit/record.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import type { ActiveAgent } from '../../store/queries/agents/active-agents.ts';
import type { Person, Reader } from '../auth/person.ts';

/** Schema of the body of each success status; null: no body, or bytes. Members that the schema does not name are not sent. */
export type Answers = Readonly<Record<number, z.ZodType | null>>;

interface Done<Status = number, Body = unknown> {
  kind: 'done';
  status: Status;
  body: Body;
  headers?: Record<string, string> | undefined;
}

/** A success that is already text or bytes. No schema is applied. */
export interface Encoded {
  kind: 'encoded';
  status: number;
  contentType: string;
  content: string | Uint8Array;
  headers?: Record<string, string> | undefined;
}

type Given<Schema> = Schema extends z.ZodType ? z.input<Schema> : undefined;
export type Reply<A extends Answers> =
  | { [Status in keyof A]: Done<Status, Given<A[Status]>> }[keyof A]
  | Encoded
  | Unanswered
  | Problem;

type Taken<Schema> = Schema extends z.ZodType ? z.output<Schema> : null;
/** A success with the body that its schema returned. */
export type Success<A> = A extends Answers
  ? {
      [Status in keyof A]: {
        kind: 'done';
        status: Status & number;
        body: Taken<A[Status]>;
        /** The body as JSON; '' without one. */
        text: string;
        headers: Record<string, string>;
      };
    }[keyof A]
  : never;
export type Outcome<A = Answers> = Success<A> | Encoded | Unanswered | Problem;

/** Description of a response with bytes instead of JSON. */
export interface AnswerBytes {
  /** One for each format. */
  contentTypes: readonly string[];
  /** Header fields and their descriptions. */
  headers?: Readonly<Record<string, string>>;
}

export interface ApiRequest<Who, Query, Input> {
  /** Authenticated and authorized; null on routes open to anyone. */
  who: Who;
  /** Id in the path, validated by the operation's `id`; '' without one. */
  id: string;
  /** The second id in the path, validated by `innerId`; '' without one. */
  innerId: string;
  query: Query;
  input: Input;
  /** The requester as an actor in the audit log. Created at each access, so that a read creates none. */
  readonly actor: Actor;
  /** False if the request has an If-Match that the given representation, which is about to be changed, does not meet. */
  matches(representation: unknown): boolean;
  /** True once the client has disconnected or cancelled the request, or the time that its page has for a search is over. */
  isGone(): boolean;
  /** Throws for a command on the machine of Weir, which has no HTTP request. */
  readonly exchange: Exchange;
}

export type Who = Person | Reader | ActiveAgent | null;

interface OperationFacts {
  /** Schema of the id in the path. Text that does not match is answered with `problem`, like an unknown id. */
  id?: { schema: z.ZodType<string>; problem: ProblemCode };
  /** Schema of the second id in the path: a resource below the first. */
  innerId?: { schema: z.ZodType<string>; problem: ProblemCode };
  /** For a 200 without a schema. */
  bytes?: AnswerBytes;
  /**
   * Schema of the GET response for the resource that this operation changes. If-Match refers to it, and a response with this
   * schema has its ETag.
   */
  representation?: z.ZodType;
  /**
   * Schema of the part of the representation that a change can overwrite. If-Match compares this part alone; absent: the whole
   * representation. The GET names it too, so that both make the same ETag.
   */
  changeable?: z.ZodType;
  /** The response to every request is the same: it is made and compressed once. */
  isConstant?: true;
  /** Refuses API tokens and JWTs with 403 `session_required`, because the operation concerns the requester's own account. */
  sessionOnly?: true;
  /**
   * A session must authenticate again (manage/auth/step-up.ts), because the result outlasts it, such as a credential. The input has the
   * member current_password.
   */
  stepUp?: true;
  /** Creates something at each call. With an Idempotency-Key it runs once. */
  idempotent?: true;
  /** Problems besides those that follow from its access and inputs. */
  problems?: readonly ProblemCode[];
}

interface TypedOperation<W, Query, Input, A extends Answers> extends OperationFacts {
  query?: z.ZodType<Query>;
  /** The JSON body. Without a schema, no body is read. */
  input?: z.ZodType<Input>;
  answers: A;
  handle(request: ApiRequest<W, Query, Input>): Promise<Reply<NoInfer<A>>>;
}

/** Any operation. The runner parses query, input and answers by the schemas, so their types are not known here. */
export interface Operation<W = Who> extends OperationFacts {
  query?: z.ZodType;
  input?: z.ZodType;
  answers: Answers;
  handle(request: ApiRequest<W, unknown, unknown>): Promise<Reply<Answers>>;
}

function operationFor<W>() {
  return <Query, Input, A extends Answers>(given: TypedOperation<W, Query, Input, A>): typeof given => given;
}

/** An operation for users. This function and the following ones only infer the types. */
export const operation = operationFor<Person>();

/** An operation of a mixed route: for users or, without one, for an agent, which sees only its own data. */
export const readerOperation = operationFor<Reader>();

/** An operation for agents alone. */
export const agentOperation = operationFor<ActiveAgent>();

/** An operation for anyone, signed in or not. Changes requested by pages of other sites are refused. */
export const openOperation = operationFor<null>();

/** Why this person may not give a new resource its id; null: they may, or give none. */
export function refusedId({ role }: Person, { id }: { id?: string | undefined }): Problem | null {
  if (id === undefined || allows(role, 'administrator')) return null;
  return problem('forbidden', `To give the id of a new one needs the role administrator; your role is ${role}.`);
}

/** Turns a result into a reply: the problem, or what `answer` returns for the value. */
export function replyTo<T, R>(result: Result<T>, answer: (value: T) => R): R | Problem {
  return result.kind === 'problem' ? result : answer(result.value);
}

/** The reply with a resource, or the problem that it does not exist. */
export function found<T>(resource: T | undefined, unknown: ProblemCode, detail?: string): Done<200, T> | Problem {
  return resource === undefined ? problem(unknown, detail) : done(200, resource);
}

/** A success with this status, body and headers. */
export function done<Status extends number>(status: Status): Done<Status, undefined>;
export function done<Status extends number, Body>(
  status: Status,
  body: Body,
  headers?: Record<string, string>,
): Done<Status, Body>;
export function done(status: number, body?: unknown, headers?: Record<string, string>): Done {
  return { kind: 'done', status, body, headers };
}

/**
 * Returns a strong entity tag of a representation (RFC 9110, section 8.8.3).
 * @param changeable text of the part that a change can overwrite; its hash is then the first part of the tag
 */
export function etagOf(text: string, changeable?: string): string {
  const parts = changeable === undefined ? [text] : [changeable, text];
  return `"${parts.map((part) => createHash('sha256').update(part).digest('base64url').slice(0, 22)).join('.')}"`;
}

/** Returns the entity tag of a representation. @param text its JSON */
export function tagOf({ changeable }: Operation, representation: unknown, text: string): string {
  return etagOf(text, changeable && JSON.stringify(changeable.parse(representation)));
}

/**
 * Returns the If-Match check of a request to an operation. It passes for a representation whose tag is listed, and for any representation with
 * `*` or without the header. If the operation has `changeable`, only that part of the tags is compared. A weak tag never matches.
 * @param field value of If-Match
 */
export function ifMatch(field: string | undefined, operation: Operation): (representation: unknown) => boolean {
  const { representation: schema } = operation;
  if (field === undefined || schema === undefined || field.trim() === '*') return () => true;
  const compared = (tag: string) => (operation.changeable === undefined ? tag : tag.split('.')[0]);
  const listed = tagsIn(field).filter((tag) => !tag.startsWith('W/'));
  return (representation) => {
    const body = schema.parse(representation);
    const current = compared(tagOf(operation, body, JSON.stringify(body)));
    return listed.some((tag) => compared(tag) === current);
  };
}

/** The problem for a DatabaseUnavailable, with the name of the cell if the error has one. Null: the error is another one. */
export function outageProblem(error: unknown): Problem | null {
  if (!(error instanceof DatabaseUnavailable)) return null;
  const refused = problemLater('database_unavailable', 1);
  if (error.cell === undefined) return refused;
  const { number, name } = error.cell;
  return {
    ...refused,
    detail: `Cell ${number} (${name}) cannot be reached or accepts no writes, and this needs it; repeat the request.`,
  };
}
