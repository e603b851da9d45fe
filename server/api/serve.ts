/** Serves operations over HTTP: who asks, whether they may, what they ask, and the answer as JSON. */
import type { AgentAuth } from '../auth/agent.ts';
import { CSRF_HEADER, type Csrf } from '../auth/csrf.ts';
import type { People } from '../auth/people.ts';
import { actorOf, type Person, visitor } from '../auth/person.ts';
import type { Reader } from '../auth/reader.ts';
import { allows, type Role } from '../auth/roles.ts';
import type { Exchange } from '../http/exchange.ts';
import { JsonBody } from '../http/json-body.ts';
import { parseQuery } from '../http/query.ts';
import type { Actor } from '../manage/actor.ts';
import type { Operation, Reply } from './operation.ts';
import { etagOf, ifMatch, isKnown } from './precondition.ts';

type Handler = (exchange: Exchange) => Promise<void>;
// biome-ignore lint/suspicious/noExplicitAny: each operation's own types meet here, checked by its schemas
type AnyOperation<Who> = Operation<Who, any, any>;

export interface ApiParts {
  people: People;
  agentAuth: AgentAuth;
  csrf: Csrf;
}

export class Api {
  readonly #parts: ApiParts;

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /** A route for anyone. A change must not come from another site's page: it could sign its visitor in as somebody else. */
  forAnyone(operation: AnyOperation<null>): Handler {
    return (exchange) =>
      this.#serve(exchange, operation, async () => {
        const safe = exchange.method === 'GET' || exchange.method === 'HEAD';
        if (safe || this.#parts.csrf.fromOwnPage(exchange)) return { who: null, actor: visitor(exchange) };
        return void exchange.problem('csrf_refused');
      });
  }

  /** A route for users in `needed` or a higher role. */
  forUsers(needed: Role, operation: AnyOperation<Person>): Handler {
    return (exchange) =>
      this.#serve(exchange, operation, async () => {
        const person = await this.#parts.people.find(exchange);
        if (person === null) return void refuseUnknown(exchange);
        return this.#permits(exchange, person, needed) ? { who: person, actor: actorOf(person, exchange) } : undefined;
      });
  }

  /**
   * A mixed route: users in `needed` or a higher role, else an agent. The agent bearer is looked at last, and every such
   * request counts in the agent limit: no path is unthrottled.
   */
  forReaders(needed: Role, operation: AnyOperation<Reader>): Handler {
    return (exchange) =>
      this.#serve<Reader>(exchange, operation, async () => {
        const person = await this.#parts.people.find(exchange);
        if (person !== null) {
          if (!this.#permits(exchange, person, needed)) return undefined;
          return { who: { kind: 'user' as const, person }, actor: actorOf(person, exchange) };
        }
        const agent = await this.#parts.agentAuth.fallback(exchange);
        return agent === null ? undefined : { who: { kind: 'agent' as const, agent }, actor: readingAgent };
      });
  }

  #permits(exchange: Exchange, person: Person, needed: Role): boolean {
    if (!allows(person.role, needed)) {
      exchange.problem('forbidden', `This needs the role ${needed}; yours here is ${person.role}.`);
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
  ): Promise<void> {
    const body = operation.input === undefined ? null : new JsonBody(exchange);
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
    const input = body === null ? {} : await body.parse(operation.input!);
    if (input === undefined) return;
    const matches = ifMatch(exchange, operation.representation);
    answer(exchange, operation, await operation.handle({ ...recognized, id, query, input, matches, exchange }));
  }
}

/** Mixed routes only read: it is in no audit entry. */
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
  // A handler that streams, or sends bytes of its own, has answered already.
  if (exchange.status !== 0) return;
  if (reply.kind === 'problem') {
    if (reply.retryAfterSeconds !== undefined) exchange.setHeader('retry-after', String(reply.retryAfterSeconds));
    return exchange.problem(reply.code, reply.detail, reply.members);
  }
  const schema = operation.answers[reply.status];
  for (const [name, value] of Object.entries(reply.headers ?? {})) exchange.setHeader(name, value);
  if (!schema) return exchange.answer(reply.status, 'text/plain', '');
  sendJson(exchange, reply.status, JSON.stringify(schema.parse(reply.body)), schema === operation.representation);
}

/**
 * Sends a JSON document. A client that asks for one which it has already, by its entity tag, is told so.
 * @param tagged also where the request is a change: the document is what GET would answer now.
 */
export function sendJson(exchange: Exchange, status: number, text: string, tagged = false): void {
  const reads = exchange.method === 'GET' || exchange.method === 'HEAD';
  if (reads || tagged) {
    const tag = etagOf(text);
    exchange.setHeader('etag', tag);
    if (reads) exchange.cacheControl = 'private, no-cache';
    if (reads && isKnown(exchange, tag)) return exchange.answer(304, 'application/json', '');
  }
  exchange.answer(status, 'application/json', text);
}
