/** Serves operations over HTTP: authenticates, runs the operation, and sends its outcome. */
import { fieldList, isKnown } from '../../base/http/conditional.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, ParsedBody } from '../../base/http/parsed-body.ts';
import { type Problem, problem } from '../../base/http/problem.ts';
import type { RouteHandler } from '../../base/http/route.ts';
import { StoredText } from '../../base/http/stored-text.ts';
import type { AgentAuth } from '../auth/agent.ts';
import type { AnonymousLimit } from '../auth/anonymous.ts';
import { CSRF_HEADER, type Csrf } from '../auth/csrf.ts';
import type { People } from '../auth/people.ts';
import { etagOf, type Operation, type Outcome } from './operation.ts';
import type { Operations } from './operations.ts';
import type { OperationAccess, OperationName } from './routes.ts';
import type { Requester, Runner } from './runner.ts';

/** Counts a change on a route open to anyone. Returns the problem if the client address is over its rate limit. */
export type OverOpenLimit = (exchange: Exchange) => Promise<Problem | null>;

/** Authenticates a request to a route of this access. */
type Recognize = (exchange: Exchange, access: OperationAccess) => Promise<Requester | Problem>;

interface ApiParts {
  runner: Runner;
  operations: Operations;
  recognize: Recognize;
  csrf: Csrf;
  anonymous: AnonymousLimit;
}

export class Api {
  readonly #parts: ApiParts;

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /** The handler of an operation's route. The body is read while the requester is looked up. */
  handler(name: OperationName, access: OperationAccess): RouteHandler {
    const { isConstant }: Operation = this.#parts.operations[name];
    return isConstant ? this.#constantHandler(name) : this.#handler(name, access);
  }

  /** The handler of a document for anyone. The first request makes the document. */
  #constantHandler(name: OperationName): RouteHandler {
    const { runner, anonymous } = this.#parts;
    const stored = new StoredText(JSON_TYPE, async (exchange: Exchange) => {
      const outcome = await runner.run(name, { ...constantRequest, exchange });
      if (outcome.kind === 'done') return outcome.text;
      if (outcome.kind === 'encoded') return String(outcome.content);
      throw new Error(`${name} is the same for every request, but its outcome is ${outcome.kind}`);
    });
    return anonymous.document((exchange) => stored.answer(exchange, exchange));
  }

  #handler(name: OperationName, access: OperationAccess): RouteHandler {
    const { runner, operations, recognize, csrf } = this.#parts;
    const readsBody = 'input' in operations[name];
    const bodyBytesMax = access === 'anyone' || access === 'agent credential' ? OPEN_BODY_BYTES_MAX : undefined;
    return async (exchange) => {
      const body = readsBody ? new ParsedBody(exchange, bodyBytesMax) : null;
      try {
        const requester = await recognize(exchange, access);
        if (requester.kind === 'problem') return exchange.problem(requester);
        const outcome = await runner.run(name, {
          requester,
          id: exchange.parameters[0] ?? '',
          innerId: exchange.parameters[1] ?? '',
          query: exchange.query === '' ? {} : Object.fromEntries(new URLSearchParams(exchange.query)),
          input: () => body!.json(),
          ifMatch: fieldList(exchange, 'if-match'),
          idempotencyKey: exchange.header('idempotency-key'),
          isForged: ({ via }) =>
            via.kind === 'session' &&
            !isReading(exchange) &&
            !csrf.allows(exchange, via.sessionId, exchange.header(CSRF_HEADER)),
          exchange,
        });
        send(exchange, outcome);
      } finally {
        body?.release();
      }
    };
  }
}

interface NetworkParts {
  people: People;
  agentAuth: AgentAuth;
  csrf: Csrf;
  overOpenLimit: OverOpenLimit;
  anonymous: AnonymousLimit;
}

/**
 * Authenticates requests of the network. On a mixed route the agent's bearer token is checked last, and every such request counts in the
 * agents' rate limit, so that no path is unthrottled. On a route for anyone, a change counts before its body is parsed, and is refused if
 * it comes from a page of another site, which could otherwise sign its visitor in as another user.
 */
export function recognizeNetwork({
  people,
  agentAuth,
  csrf,
  overOpenLimit,
  anonymous: limit,
}: NetworkParts): Recognize {
  return async (exchange, access) => {
    if (access === 'agent') return agentAuth.agent(exchange);
    if (access === 'agent credential') return (await agentAuth.overLimit(exchange)) ?? anyone;
    if (access === 'anyone') {
      if (isReading(exchange)) return (await limit.overUnlessKnown(exchange)) ?? anyone;
      const refused = await overOpenLimit(exchange);
      return refused ?? (csrf.fromOwnPage(exchange) ? anyone : problem('csrf_refused'));
    }
    const person = await people.find(exchange);
    if (person !== null) return { kind: 'user', person };
    if (access === 'viewer or agent') return agentAuth.fallback(exchange);
    return (await limit.over(exchange)) ?? anyone;
  };
}

const anyone = { kind: 'anyone' } as const;
/** The request of every client for a public document. */
const constantRequest = {
  requester: anyone,
  id: '',
  query: {},
  input: async () => ({ kind: 'parsed', value: {} }) as const,
  isForged: () => false,
};

function isReading({ method }: Exchange): boolean {
  return method === 'GET' || method === 'HEAD';
}

function send(exchange: Exchange, outcome: Outcome): void {
  if (outcome.kind === 'problem') return exchange.problem(outcome);
  if (outcome.kind !== 'done' && outcome.kind !== 'encoded') return;
  for (const [name, value] of Object.entries(outcome.headers ?? {})) exchange.setHeader(name, value);
  const { status } = outcome;
  if (outcome.kind === 'encoded' && outcome.contentType !== JSON_TYPE)
    return exchange.answer(status, outcome.contentType, outcome.content);
  const text = outcome.kind === 'done' ? outcome.text : String(outcome.content);
  if (text === '') return exchange.answer(status, 'text/plain', '');
  if (isReading(exchange)) {
    exchange.cacheControl = 'private, no-cache';
    const tag = outcome.headers?.etag ?? etagOf(text);
    if (outcome.headers?.etag === undefined) exchange.setHeader('etag', tag);
    if (isKnown(exchange, tag)) return exchange.answer(304, JSON_TYPE, '');
  }
  exchange.answer(status, JSON_TYPE, text);
}

const JSON_TYPE = 'application/json';
