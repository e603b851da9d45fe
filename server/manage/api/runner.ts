/**
 * Runs operations for HTTP and pages with the same rules: access, id, query, input, step-up, precondition, idempotency key,
 * handler, and the schema of the response.
 */
import { z } from 'zod';
import type { Exchange, Unanswered } from '../../base/http/exchange.ts';
import { check, invalidBody, invalidQuery } from '../../base/http/issues.ts';
import { type Problem, problem, type Result } from '../../base/http/problem.ts';
import { allows } from '../../model/users.ts';
import type { Actor } from '../../store/audit/record.ts';
import { type Person, personActor, type Reader, visitorActor } from '../auth/person.ts';
import { type Idempotency, isIdempotencyKey } from './idempotency.ts';
import {
  type Answers,
  type ApiRequest,
  ifMatch,
  type Operation,
  type Outcome,
  type Reply,
  tagOf,
  type Who,
} from './operation.ts';
import type { Operations } from './operations.ts';
import { type OperationAccess, type OperationName, operationRoutes } from './routes.ts';

/** `anyone`: neither a user nor an agent. */
export type Requester = { kind: 'anyone' } | Reader;

/** A request to an operation, not yet validated. */
interface UnvalidatedRequest {
  /** As authenticated by the caller. */
  requester: Requester;
  /** Id in the path; '' without one. */
  id: string;
  /** The second id in the path; absent without one. */
  innerId?: string;
  query: Readonly<Record<string, string>>;
  /** Reads the parsed body. Called only if the operation has an input, and after the rest of the request was found valid. */
  input: () => Promise<{ kind: 'parsed'; value: unknown } | Unanswered | Problem>;
  /** Value of If-Match. */
  ifMatch?: string | undefined;
  idempotencyKey?: string | undefined;
  /** True for a change that a page of another site may have sent in the name of this user. */
  isForged: (person: Person) => boolean;
  /** Noted in the audit log. */
  via?: Actor['via'];
  /** Null: a command on this machine, which calls operations that answer with a document only. */
  exchange: Exchange | null;
  /** Milliseconds after which a search ends with what it has found; absent: its own limit. */
  withinMs?: number | undefined;
}

export type OutcomeOf<Name extends OperationName> = Outcome<Operations[Name]['answers']>;

export const accessOf = Object.fromEntries(operationRoutes.map(([, , name, access]) => [name, access])) as Readonly<
  Record<OperationName, OperationAccess>
>;

/** Authenticates the requester again. @param password the given current_password */
export type Confirm = (
  exchange: Exchange,
  person: Person,
  actor: Actor,
  password: string | undefined,
) => Promise<Result<null>>;

export class Runner {
  readonly #operations: Operations;
  readonly #idempotency: Idempotency | null;
  readonly #confirm: Confirm;

  /** @param idempotency null: the requests have no Idempotency-Key */
  constructor(operations: Operations, idempotency: Idempotency | null, confirm: Confirm) {
    this.#operations = operations;
    this.#idempotency = idempotency;
    this.#confirm = confirm;
  }

  /** Rejects with DatabaseUnavailable and ProblemError. */
  run<Name extends OperationName>(name: Name, request: UnvalidatedRequest): Promise<OutcomeOf<Name>> {
    // The schema of the response has checked the body against this type.
    return this.#run(this.#operations[name], accessOf[name], request) as Promise<OutcomeOf<Name>>;
  }

  async #run(operation: Operation, access: OperationAccess, request: UnvalidatedRequest): Promise<Outcome> {
    const { requester } = request;
    const admitted = admit(operation, access, request);
    if (admitted.kind === 'problem') return admitted;
    const id = request.id.toLowerCase();
    if (operation.id?.schema.safeParse(id).success === false) return problem(operation.id.problem);
    const innerId = request.innerId?.toLowerCase() ?? '';
    if (operation.innerId?.schema.safeParse(innerId).success === false) return problem(operation.innerId.problem);
    const query = check(operation.query ?? anything, request.query);
    if ('issues' in query) return invalidQuery(query);
    const body = operation.input === undefined ? emptyBody : await request.input();
    if (body.kind !== 'parsed') return body;
    const input = check(operation.input ?? anything, body.value);
    if ('issues' in input) return invalidBody(input);

    const actor = () => actorOf(request);
    // Before the Idempotency-Key: a stored response may contain a credential too.
    if (operation.stepUp && requester.kind === 'user' && requester.person.via.kind !== 'local') {
      const { current_password: password } = input.data as { current_password?: string };
      const confirmed = await this.#confirm(exchangeOf(request), requester.person, actor(), password);
      if (confirmed.kind === 'problem') return confirmed;
    }
    const handle = async (by: () => Actor) =>
      render(
        operation,
        await operation.handle(
          new HandledRequest(request, by, {
            who: admitted.who,
            id,
            innerId,
            query: query.data,
            input: input.data,
            matches: ifMatch(request.ifMatch, operation),
          }),
        ),
      );
    const key = operation.idempotent ? request.idempotencyKey : undefined;
    if (
      key === undefined ||
      requester.kind !== 'user' ||
      requester.person.via.kind === 'local' ||
      this.#idempotency === null
    )
      return handle(actor);
    if (!isIdempotencyKey(key)) return problem('idempotency_key_invalid');
    const { method, path } = exchangeOf(request);
    const keyed = { key, method, path, input: input.data, role: requester.person.role, userId: requester.person.id };
    return this.#idempotency.once(keyed, (confirm) => handle(() => ({ ...actor(), confirm })));
  }
}

function exchangeOf({ exchange }: UnvalidatedRequest): Exchange {
  if (exchange === null) throw new Error('a command called an operation that needs an HTTP request');
  return exchange;
}

function actorOf(request: UnvalidatedRequest): Actor {
  const { requester, via } = request;
  if (requester.kind !== 'user') return visitorActor(exchangeOf(request));
  const { person } = requester;
  return person.via.kind === 'local'
    ? person.via.actor
    : personActor({ ...person, via: person.via }, exchangeOf(request), via);
}

const anything = z.unknown();
const emptyBody = { kind: 'parsed', value: {} } as const;

/** A request as the handler gets it. A class: an object literal with a getter takes V8 several microseconds. */
class HandledRequest implements ApiRequest<Who, unknown, unknown> {
  readonly who: Who;
  readonly id: string;
  readonly innerId: string;
  readonly query: unknown;
  readonly input: unknown;
  readonly matches: (representation: unknown) => boolean;
  readonly isGone: () => boolean;
  readonly #request: UnvalidatedRequest;
  readonly #by: () => Actor;

  constructor(
    request: UnvalidatedRequest,
    by: () => Actor,
    given: Omit<ApiRequest<Who, unknown, unknown>, 'actor' | 'exchange' | 'isGone'>,
  ) {
    this.who = given.who;
    this.id = given.id;
    this.innerId = given.innerId;
    this.query = given.query;
    this.input = given.input;
    this.matches = given.matches;
    const untilMs = performance.now() + (request.withinMs ?? Infinity);
    this.isGone = () => request.exchange?.isGone === true || performance.now() >= untilMs;
    this.#request = request;
    this.#by = by;
  }

  get actor(): Actor {
    return this.#by();
  }

  get exchange(): Exchange {
    return exchangeOf(this.#request);
  }
}

/** A success. A page needs its body only, so the text is made when it is read. */
class Rendered {
  readonly kind = 'done';
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: unknown;
  #text: string | undefined;

  constructor(status: number, headers: Record<string, string>, body: unknown, text?: string) {
    this.status = status;
    this.headers = headers;
    this.body = body;
    this.#text = text;
  }

  get text(): string {
    this.#text ??= JSON.stringify(this.body);
    return this.#text;
  }
}

/** Checks that the requester may run the operation. `who` is the requester as the handler gets it. */
function admit(
  { sessionOnly }: Operation,
  access: OperationAccess,
  { requester, isForged }: UnvalidatedRequest,
): { kind: 'admitted'; who: Who } | Problem {
  if (access === 'anyone' || access === 'agent credential') return { kind: 'admitted', who: null };
  const isMixed = access === 'viewer or agent';
  if (requester.kind === 'agent' && (isMixed || access === 'agent'))
    return { kind: 'admitted', who: isMixed ? requester : requester.agent };
  if (requester.kind !== 'user' || access === 'agent') return problem('unauthenticated');
  const { person } = requester;
  if (sessionOnly && person.via.kind !== 'session') return problem('session_required');
  const needed = isMixed ? 'viewer' : access;
  if (!allows(person.role, needed))
    return problem('forbidden', `This needs the role ${needed}; your role is ${person.role}.`);
  return isForged(person) ? problem('csrf_refused') : { kind: 'admitted', who: isMixed ? requester : person };
}

/** Applies the schema of the response. A representation that GET would return has its entity tag in the response to a change too. */
function render(operation: Operation, reply: Reply<Answers>): Outcome {
  if (reply.kind !== 'done') return reply;
  const { status, headers = {} } = reply;
  const schema = operation.answers[status];
  if (!schema) return new Rendered(status, headers, null, '') as Outcome;
  const body = schema.parse(reply.body);
  const isTagged = schema === operation.representation || operation.changeable !== undefined;
  if (!isTagged) return new Rendered(status, headers, body) as Outcome;
  const text = JSON.stringify(body);
  return new Rendered(status, { ...headers, etag: tagOf(operation, body, text) }, body, text) as Outcome;
}
