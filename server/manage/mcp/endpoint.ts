/**
 * POST /mcp: the Model Context Protocol over Streamable HTTP (revision 2025-11-25), without sessions. Each request is authenticated
 * and answered for itself, so any process can serve it. What the SDK needs is loaded by the first request, see serve.ts.
 */
import { createHash } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { ParsedBody } from '../../base/http/parsed-body.ts';
import { type Problem, ProblemError, problem } from '../../base/http/problem.ts';
import type { RouteHandler } from '../../base/http/route.ts';
import { isLoopback } from '../../base/net/loopback.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { record } from '../../store/audit/record.ts';
import { notifyEveryProcess } from '../../store/connect/listen.ts';
import type { Database } from '../../store/connect/pool.ts';
import { outageProblem } from '../api/operation.ts';
import type { OperationName } from '../api/routes.ts';
import { accessOf, type Runner } from '../api/runner.ts';
import { type AgentAuth, bearer } from '../auth/agent.ts';
import type { Csrf } from '../auth/csrf.ts';
import type { People } from '../auth/people.ts';
import type { Reader } from '../auth/person.ts';
import type { OAuth } from '../oauth/oauth.ts';
import type { CallRecord, OperationCall, ToolOperations } from './tool.ts';

/** Largest request. The largest useful one, 100 receipts or the definition of a webhook, has about 10 KiB. */
const MCP_BODY_BYTES_MAX = 262_144;

interface McpParts {
  people: People;
  agentAuth: AgentAuth;
  /** Null: OAUTH_ENABLED is false. */
  oauth: OAuth | null;
  csrf: Csrf;
  runner: Runner;
  calls: OpenCalls;
  database: Database;
  log: Log;
  settings: Pick<Settings, 'HOST' | 'PUBLIC_URL' | 'FRONTEND_PUBLIC_API_URL'>;
}

/** Returns the handler of POST /mcp. */
export function createMcp(parts: McpParts): RouteHandler {
  const isOwnHost = hostCheck(parts.settings);
  return async (exchange) => {
    if (!parts.csrf.fromOwnPage(exchange) || !isOwnHost(exchange)) return exchange.problem(problem('origin_refused'));
    const body = new ParsedBody(exchange, MCP_BODY_BYTES_MAX);
    try {
      const requester = await authenticate(parts, exchange);
      if (requester.kind === 'problem') return exchange.problem(requester);
      const message = await body.json();
      if (message.kind === 'problem') return exchange.problem(message);
      if (message.kind !== 'parsed') return;
      const { serveMcp } = await import('./serve.ts');
      const operations = whileGranted(operationsFor(parts, requester, exchange), parts.oauth, exchange);
      const recordCall = (call: CallRecord) => recordCallOf(parts, requester, exchange, call);
      const served = { exchange, requester, message: message.value, operations, recordCall };
      await parts.calls.during(requester, message.value, exchange, () => serveMcp(served));
    } finally {
      body.release();
    }
  };
}

/**
 * Authenticates a client by an access token of OAuth, a user by an API token or JWT, else an agent by its credential or session. A cookie is
 * not accepted: a browser would send it for a page of another site. Credentials and failures count in the agents' rate limit.
 */
async function authenticate({ people, agentAuth, oauth }: McpParts, exchange: Exchange): Promise<Reader | Problem> {
  const client = await oauth?.reader(exchange, bearer(exchange));
  if (client) return client;
  const person = exchange.header('authorization') === undefined ? null : await people.find(exchange);
  if (person !== null) return { kind: 'user', person };
  const agent = await agentAuth.agent(exchange);
  const isRefused = agent.kind === 'problem' && agent.code === 'agent_unauthenticated';
  return isRefused ? { ...unauthenticated, challenge: oauth?.challenge } : agent;
}

const unauthenticated = problem(
  'agent_unauthenticated',
  'Present an agent credential, an active agent session or an API token, as Authorization: Bearer.',
);

function operationsFor({ runner, agentAuth }: McpParts, requester: Reader, exchange: Exchange): ToolOperations {
  // A credential was counted when it was checked. Operations for users or agents count sessions too, see AgentAuth.fallback.
  let counted = requester.kind === 'user' || bearer(exchange).startsWith('wa_');
  async function call<Name extends OperationName>(name: Name, given: OperationCall) {
    const { id = '', query = {}, input = {} } = given;
    if (!counted && accessOf[name] === 'viewer or agent') {
      counted = true;
      const over = await agentAuth.overLimit(exchange);
      if (over !== null) return over;
    }
    try {
      return await runner.run(name, {
        requester,
        id,
        query,
        input: async () => ({ kind: 'parsed', value: input }),
        isForged: () => false,
        via: 'mcp',
        exchange,
      });
    } catch (error) {
      if (error instanceof ProblemError) return error.problem;
      const outage = outageProblem(error);
      if (outage === null) throw error;
      return outage;
    }
  }
  return {
    run: async (name, given) => {
      const outcome = await call(name, given);
      if (outcome.kind === 'encoded') throw new Error(`${name} answers with bytes`);
      return outcome;
    },
    encoded: async (name, given) => {
      const outcome = await call(name, given);
      if (outcome.kind === 'done') throw new Error(`${name} answers with a document`);
      return outcome;
    },
  };
}

/** Checks the grant of an OAuth client again after a claim: if it ended while the claim waited, the deliveries are released, unseen. */
function whileGranted(operations: ToolOperations, oauth: OAuth | null, exchange: Exchange): ToolOperations {
  if (oauth === null || !oauth.issued(bearer(exchange))) return operations;
  return {
    ...operations,
    encoded: async (name, given) => {
      const outcome = await operations.encoded(name, given);
      if (name !== 'claim' || outcome.kind !== 'encoded') return outcome;
      if ((await oauth.reader(exchange, bearer(exchange))) !== null) return outcome;
      const { deliveries }: { deliveries: { receipt: string }[] } = JSON.parse(String(outcome.content));
      const receipts = deliveries.map(({ receipt }) => receipt);
      if (receipts.length > 0) await operations.run('nack', { input: { receipts, release: true } });
      return unauthenticated;
    },
  };
}

async function recordCallOf(
  { database, log }: McpParts,
  requester: Reader,
  { client, requestId }: Exchange,
  { action, deliveryIds }: CallRecord,
): Promise<void> {
  if (requester.kind !== 'agent' || deliveryIds.length === 0) return;
  const { id, name } = requester.agent;
  const actor = { kind: 'agent', id, name, token_id: null, address: client.address, request_id: requestId } as const;
  const change = { action, target: { kind: 'agent', id, name }, after: { delivery_ids: deliveryIds } };
  try {
    await database.transaction((query) => record(query, { ...actor, via: 'mcp' }, change));
  } catch (error) {
    log('audit_failed', { request_id: requestId, action, reason: (error as Error).message });
  }
}

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Protects a Weir that listens only on loopback from DNS rebinding: a page of another site, whose name was made to resolve to
 * 127.0.0.1, sends its own name in Host. A Weir that listens on other addresses is reachable by names that it cannot know.
 */
function hostCheck({
  HOST,
  PUBLIC_URL,
  FRONTEND_PUBLIC_API_URL,
}: McpParts['settings']): (exchange: Exchange) => boolean {
  if (!isLoopback(HOST)) return () => true;
  const own = [PUBLIC_URL, FRONTEND_PUBLIC_API_URL].map((url) => new URL(url).hostname);
  const names = new Set([...LOOPBACK_NAMES, ...own]);
  return (exchange) => {
    const address = `http://${exchange.header('host')}`;
    return URL.canParse(address) && names.has(new URL(address).hostname);
  };
}

interface Message {
  method?: unknown;
  id?: unknown;
  params?: { requestId?: unknown } | null;
}

/**
 * Tool calls in progress, so that a client can cancel them. With Streamable HTTP a cancellation is a request of its own
 * (notifications/cancelled), which any process of any machine may receive: it is passed to all of them on the channel of changes.
 */
export class OpenCalls {
  readonly #database: Database;
  readonly #exchanges = new Map<string, Set<Exchange>>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Serves a message. A tool call can be cancelled until `work` ends. A cancellation is carried out here and sent to the other processes. */
  async during(requester: Reader, message: unknown, exchange: Exchange, work: () => Promise<void>): Promise<void> {
    const { method, id, params }: Message = Object(message);
    if (method === 'notifications/cancelled') this.#cancelEverywhere(keyOf(requester, params?.requestId));
    if (method !== 'tools/call') return work();
    const key = keyOf(requester, id);
    const open = this.#exchanges.get(key) ?? new Set();
    this.#exchanges.set(key, open.add(exchange));
    try {
      await work();
    } finally {
      open.delete(exchange);
      if (open.size === 0) this.#exchanges.delete(key);
    }
  }

  /** Ends the calls of this key that this process serves. */
  cancel(key: string): void {
    for (const exchange of this.#exchanges.get(key) ?? []) exchange.cancel();
  }

  #cancelEverywhere(key: string): void {
    this.cancel(key);
    // If it is lost, the call waits until its own timeout.
    notifyEveryProcess(this.#database, `call:${key}`).catch(() => {});
  }
}

/**
 * Names a call by who made it and its JSON-RPC id. Two clients with one credential may use one id for two calls: both end, and the client
 * that did not cancel gets an early answer.
 */
function keyOf(requester: Reader, id: unknown): string {
  const by = requester.kind === 'agent' ? requester.agent.id : requester.person.id;
  return createHash('sha256')
    .update(`${by} ${JSON.stringify(id)}`)
    .digest('base64url');
}
