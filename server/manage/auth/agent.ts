/**
 * Agent authentication: a credential `wa_…`, looked up and compared by hash, or a session `ws_…`, verified without a query. A
 * presented token is never logged, and a refusal does not say which part was wrong.
 */
import { timingSafeEqual } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Exchange } from '../../base/http/exchange.ts';
import { type Problem, problem, problemLater } from '../../base/http/problem.ts';
import { overLimit } from '../../base/http/rate-limit.ts';
import type { Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import { parseCredential } from '../../model/credential.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { Directory } from '../../store/directory.ts';
import {
  type ActiveAgent,
  findAgentByLookupId,
  isValidFor,
  recordAgentsSeen,
} from '../../store/queries/agents/active-agents.ts';
import { CLOCK_DIFFERENCE_MS, type PreviousKey } from '../../store/secrets/keys.ts';
import { type ReadClaim, readSession, signSession } from './agent-session.ts';
import type { AgentReader } from './person.ts';

/** Short, so that a stolen session expires soon. Agents get a new session with their credential. */
export const AGENT_SESSION_SECONDS = 900;

interface AgentAuthParts {
  database: Database;
  agents: Directory<ActiveAgent>;
  limiter: RateLimiter;
  policy: Policy;
  /** Called with each authenticated agent, its client address, and whether the previous credential was used. */
  seen: (agentId: string, address: string, byPrevious: boolean) => void;
  /** Session signing keys, current first. */
  keys: readonly Buffer[];
  previousKey: PreviousKey;
}

/** Limit on verified sessions in memory. At the limit all are dropped, and each is verified again at its next request. */
const SESSIONS_MAX = 20_000;

export class AgentAuth {
  readonly #parts: AgentAuthParts;
  /** Sessions whose signature was verified, by their text. An agent uses one for many requests. */
  readonly #verified = new Map<string, ReadClaim>();

  constructor(parts: AgentAuthParts) {
    this.#parts = parts;
  }

  /**
   * Returns the agent of a request to an agent-only route. A valid session is not counted against the rate limit and not refused
   * by it. A credential is counted, and so is every failure.
   */
  async agent(exchange: Exchange): Promise<AgentReader | Problem> {
    const token = bearer(exchange);
    return (
      (await this.#bySession(exchange, token)) ?? (await this.overLimit(exchange)) ?? this.byCredential(exchange, token)
    );
  }

  /** Returns the agent of a request to a mixed route that has no authenticated user. Every agent request to such a route is counted. */
  async fallback(exchange: Exchange): Promise<AgentReader | Problem> {
    const over = await this.overLimit(exchange);
    if (over !== null) return over;
    const token = bearer(exchange);
    return (await this.#bySession(exchange, token)) ?? this.byCredential(exchange, token, MIXED);
  }

  /** Returns a session token valid for AGENT_SESSION_SECONDS from `nowMs`. */
  session(agent: ActiveAgent, nowMs: number): string {
    const { id, generation, previousGeneration } = agent;
    return signSession(
      { agentId: id, generation: previousGeneration ?? generation, expiresAtMs: nowMs + AGENT_SESSION_SECONDS * 1000 },
      this.#parts.keys[0]!,
    );
  }

  /** Whether the request presents an active session. Credentials are not checked, because that takes a query. */
  async hasSession(exchange: Exchange): Promise<boolean> {
    const session = await this.#bySession(exchange, bearer(exchange));
    return session?.kind === 'agent';
  }

  /**
   * Returns the agent of a credential. Rejects with DatabaseUnavailable.
   * @param text the credential, from the header or a body
   * @param detail text of the problem when the credential is not valid; default: the standard text
   */
  async byCredential(exchange: Exchange, text: string, detail?: string): Promise<AgentReader | Problem> {
    const invalid = problem('agent_unauthenticated', detail);
    const credential = parseCredential('wa', text);
    if (credential === null) return invalid;
    const found = await findAgentByLookupId(this.#parts.database, credential.lookupId);
    if (found === undefined || !timingSafeEqual(found.secretHash, credential.secretHash)) return invalid;
    this.#parts.seen(found.id, exchange.client.address, found.previousGeneration !== null);
    return { kind: 'agent', agent: found };
  }

  /** The agent that an OAuth client acts as; null: the agent is revoked. */
  async byId(exchange: Exchange, id: string): Promise<AgentReader | Problem | null> {
    const agent = await this.#parts.agents.find(id, Date.now());
    if (agent === undefined) return unavailable;
    if (agent === null) return null;
    this.#parts.seen(id, exchange.client.address, false);
    return { kind: 'agent', agent };
  }

  /** The agent of a session; null: the token is not a valid session. */
  async #bySession(exchange: Exchange, token: string): Promise<AgentReader | Problem | null> {
    const nowMs = Date.now();
    const claim = this.#claimOf(token, nowMs);
    if (claim === null) return null;
    if (claim.keyIndex > 0) {
      const accepted = await this.#parts.previousKey.isAccepted(AGENT_SESSION_SECONDS).catch(() => undefined);
      if (accepted !== true) return accepted === undefined ? unavailable : null;
    }
    const agent = await this.#parts.agents.find(claim.agentId, nowMs);
    if (agent === undefined) return unavailable;
    if (agent === null || !isValidFor(agent, claim.generation, nowMs)) return null;
    const byPrevious = claim.generation !== agent.generation;
    this.#parts.seen(agent.id, exchange.client.address, byPrevious);
    return { kind: 'agent', agent: byPrevious ? { ...agent, previousGeneration: claim.generation } : agent };
  }

  #claimOf(token: string, nowMs: number): ReadClaim | null {
    const known = this.#verified.get(token);
    if (known !== undefined && known.expiresAtMs > nowMs) return known;
    const claim = readSession(token, this.#parts.keys, nowMs, AGENT_SESSION_SECONDS * 1000 + CLOCK_DIFFERENCE_MS);
    if (claim === null) return null;
    if (this.#verified.size >= SESSIONS_MAX) this.#verified.clear();
    this.#verified.set(token, claim);
    return claim;
  }

  /** Counts one authentication. Returns the problem if the rate limit is exceeded. */
  overLimit(exchange: Exchange): Promise<Problem | null> {
    return overLimit(exchange, this.#parts.limiter, this.#parts.policy);
  }
}

/** The database cannot be reached, so it is unknown whether the agent is valid. */
const unavailable = problemLater('database_unavailable', 1);

/** Error detail on routes for users and agents. */
const MIXED =
  'Sign in, or present as Authorization: Bearer an API token, an agent credential or an active agent session.';

/**
 * Returns the token of `Authorization: Bearer …`, or an empty string. A repeated field is ambiguous and also returns an empty
 * string.
 */
export function bearer(exchange: Exchange): string {
  const [value = '', ...more] = exchange.headers.filter((_, i, all) => i % 2 === 1 && all[i - 1] === 'authorization');
  return more.length > 0 ? '' : (/^Bearer +(\S+) *$/i.exec(value)?.[1] ?? '');
}

const previousOf = (agentId: string) => `previous ${agentId}`;

/** Each process writes an agent at most once per interval. */
const LAST_SEEN_EVERY_MS = 60_000;
/** Limit on the times of writes in memory. At the limit all are dropped, because temporary agents come and go. */
export const WRITTEN_MAX = 50_000;
/** Pause after a write. Of thousands of agents, all that are seen during the pause share the next write. */
const WRITE_GAP_MS = 200;

/** Stores when and from which address each agent was last seen, so that an operator can tell an idle agent from a stopped one. */
export class LastSeen {
  readonly #database: Database;
  /** Time of the last write of this process, by agent id, and for its previous credential. */
  readonly #writtenMs = new Map<string, number>();
  /** Addresses to write, by agent id. */
  #seen = new Map<string, string>();
  #byPrevious = new Set<string>();
  #writing = false;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Reports a request of the agent from this address. The write is not awaited.
   * @param nowMs monotonic clock, in milliseconds
   */
  record(agentId: string, address: string, nowMs: number, byPrevious = false): void {
    const key = byPrevious ? previousOf(agentId) : agentId;
    if (nowMs - (this.#writtenMs.get(key) ?? -Infinity) < LAST_SEEN_EVERY_MS) return;
    if (this.#writtenMs.size >= WRITTEN_MAX) this.#writtenMs.clear();
    this.#writtenMs.set(key, nowMs);
    this.#seen.set(agentId, address);
    if (byPrevious) this.#byPrevious.add(agentId);
    if (!this.#writing) void this.#write();
  }

  async #write(): Promise<void> {
    this.#writing = true;
    while (this.#seen.size > 0) {
      const [seen, byPrevious] = [this.#seen, this.#byPrevious];
      [this.#seen, this.#byPrevious] = [new Map(), new Set()];
      await recordAgentsSeen(this.#database, seen, byPrevious).catch(() => {
        for (const agentId of seen.keys())
          for (const key of [agentId, previousOf(agentId)]) this.#writtenMs.delete(key);
      });
      await delay(WRITE_GAP_MS, undefined, { ref: false });
    }
    this.#writing = false;
  }
}
