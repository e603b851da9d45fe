/** Serves operations over HTTP: authentication, authorization, input validation, and the JSON response. */

import type { Actor } from '../audit/actor.ts';
import type { AgentAuth } from '../auth/agent.ts';
import { CSRF_HEADER, type Csrf } from '../auth/csrf.ts';
import type { People } from '../auth/people.ts';
import { type Person, personActor, type Reader, visitorActor } from '../auth/person.ts';
import type { Exchange } from '../http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, ParsedBody } from '../http/parsed-body.ts';
import { parseQuery } from '../http/query.ts';
import { allows, type Role } from '../resources/users.ts';
import { type Idempotency, isKey, type Rendered } from './idempotency.ts';
import type { Operation, Reply } from './operation.ts';
import { etagOf, ifMatch, isKnown } from './precondition.ts';

type Handler = (exchange: Exchange) => Promise<void>;
/**
 * Counts a change on a route open to anyone. Returns false when the rate limit is exceeded; the exchange is then already
 * answered.
 */
export type AdmitsOpen = (exchange: Exchange) => Promise<boolean>;
// biome-ignore lint/suspicious/noExplicitAny: each operation's own types meet here, checked by its schemas
type AnyOperation<Who> = Operation<Who, any, any>;

interface ApiParts {
  people: People;
  agentAuth: AgentAuth;
  csrf: Csrf;
  idempotency: Idempotency;
  admitsOpen: AdmitsOpen;
}

export class Api {
  readonly #parts: ApiParts;

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /**
   * A route for anyone. A change is rate-limited by client address before its body is parsed. It is refused if it comes from a
   * page of another site, which could otherwise sign its visitorActor in as another user.
   */
  forAnyone(operation: AnyOperation<null>): Handler {
    const recognize = async (exchange: Exchange) => {
      const asked = { who: null, actor: visitorActor(exchange) };
      if (exchange.method === 'GET' || exchange.method === 'HEAD') return asked;
      if (!(await this.#parts.admitsOpen(exchange))) return undefined;
      return this.#parts.csrf.fromOwnPage(exchange) ? asked : void exchange.problem('csrf_refused');
    };
    return (exchange) => this.#serve(exchange, operation, () => recognize(exchange), OPEN_BODY_BYTES_MAX);
  }

  /** A route for users with the role `needed` or higher. */
  forUsers(needed: Role, operation: AnyOperation<Person>): Handler {
    return (exchange) =>
      this.#serve(exchange, operation, async () => {
        const person = await this.#parts.people.find(exchange);
        if (person === null) return void refuseUnknown(exchange);
        if (operation.sessionOnly && person.via.kind !== 'session') return void exchange.problem('session_required');
        return this.#permits(exchange, person, needed)
          ? { who: person, actor: personActor(person, exchange) }
          : undefined;
      });
  }

  /**
   * A mixed route: for users with the role `needed` or higher, else for an agent. The agent's bearer token is checked last, and
   * every such request counts in the agents' rate limit, so that no path is unthrottled.
   */
  forReaders(needed: Role, operation: AnyOperation<Reader>): Handler {
    return (exchange) =>
      this.#serve<Reader>(exchange, operation, async () => {
        const person = await this.#parts.people.find(exchange);
        if (person !== null) {
          if (!this.#permits(exchange, person, needed)) return undefined;
          return { who: { kind: 'user' as const, person }, actor: personActor(person, exchange) };
        }
        const agent = await this.#parts.agentAuth.fallback(exchange);
        return agent === null ? undefined : { who: { kind: 'agent' as const, agent }, actor: readingAgent };
      });
  }

  #permits(exchange: Exchange, person: Person, needed: Role): boolean {
    if (!allows(person.role, needed)) {
      exchange.problem('forbidden', `This needs the role ${needed}; your role is ${person.role}.`);
      return false;
    }
    if (person.via.kind !== 'session' || exchange.method === 'GET' || exchange.method === 'HEAD') return true;
    if (this.#parts.csrf.allows(exchange, person.via.sessionId, exchange.header(CSRF_HEADER))) return true;
    exchange.problem('csrf_refused');
    return false;
  }

  async #serve<Who>(
    exchange: Exchange,
    operation: AnyOperation<Who>,
    recognize: () => Promise<{ who: Who; actor: Actor } | undefined>,
    bodyBytesMax?: number,
  ): Promise<void> {
    const body = operation.input === undefined ? null : new ParsedBody(exchange, bodyBytesMax);
    const recognized = await recognize().catch((error) => {
      body?.release();
      throw error;
    });
    if (recognized === undefined) return body?.release();
    const id = exchange.parameters[0]?.toLowerCase() ?? '';
    if (operation.id !== undefined && !operation.id.schema.safeParse(id).success) {
      body?.release();
      return exchange.problem(operation.id.problem);
    }
    const query = operation.query === undefined ? {} : parseQuery(exchange, operation.query);
    if (query === undefined) return body?.release();
    const input = body === null ? {} : await body.json(operation.input!);
    if (input === undefined) return;
    const matches = ifMatch(exchange, operation.representation);
    const { who, actor } = recognized;
    const work = (actor: Actor) => operation.handle({ who, id, query, input, actor, matches, exchange });
    const key = operation.idempotent ? exchange.header('idempotency-key') : undefined;
    if (key === undefined || actor.id === null) return answer(exchange, operation, await work(actor));
    if (!isKey(key)) return exchange.problem('idempotency_key_invalid');
    // Only operations for users take a key.
    const { role } = who as Person;
    const request = { key, method: exchange.method, path: exchange.path, input, role };
    const once = await this.#parts.idempotency.once(request, { ...actor, id: actor.id }, work, (reply) =>
      reply.kind === 'done' ? render(operation, reply) : null,
    );
    if (once.kind === 'refused') return exchange.problem(once.code);
    if (once.kind === 'done') return answer(exchange, operation, once.value);
    exchange.setHeader('idempotent-replayed', 'true');
    send(exchange, once.answer);
  }
}

/** Mixed routes only read, so this actor is never recorded. */
const readingAgent: Actor = {
  kind: 'anyone',
  id: null,
  name: 'agent',
  token_id: null,
  address: null,
  request_id: null,
};

function refuseUnknown(exchange: Exchange): void {
  exchange.setHeader('www-authenticate', 'Bearer');
  exchange.problem('unauthenticated');
}

function answer(exchange: Exchange, operation: AnyOperation<never>, reply: Reply): void {
  // A handler that streams or sends its own bytes has already answered.
  if (exchange.status !== 0) return;
  if (reply.kind === 'problem') {
    if (reply.retryAfterSeconds !== undefined) exchange.setHeader('retry-after', String(reply.retryAfterSeconds));
    return exchange.problem(reply.code, reply.detail, reply.members);
  }
  send(exchange, render(operation, reply));
}

/** Renders a reply. A representation that GET would return has its entity tag in the response to a change too. */
function render(
  operation: AnyOperation<never>,
  { status, body, headers = {} }: Extract<Reply, { kind: 'done' }>,
): Rendered {
  const schema = operation.answers[status];
  if (!schema) return { status, headers, text: '' };
  const text = JSON.stringify(schema.parse(body));
  return { status, text, headers: schema === operation.representation ? { ...headers, etag: etagOf(text) } : headers };
}

function send(exchange: Exchange, { status, headers, text }: Rendered): void {
  for (const [name, value] of Object.entries(headers)) exchange.setHeader(name, value);
  if (text === '') exchange.answer(status, 'text/plain', '');
  else sendJson(exchange, status, text);
}

/** Sends a JSON document; 304 if the client already has it (If-None-Match). */
export function sendJson(exchange: Exchange, status: number, text: string): void {
  if (exchange.method === 'GET' || exchange.method === 'HEAD') {
    exchange.cacheControl = 'private, no-cache';
    const tag = etagOf(text);
    exchange.setHeader('etag', tag);
    if (isKnown(exchange, tag)) return exchange.answer(304, 'application/json', '');
  }
  exchange.answer(status, 'application/json', text);
}
