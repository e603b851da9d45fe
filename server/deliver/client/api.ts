/** API calls of an agent. Each call uses the agent's session. */
import { type Backoff, backoffMs, pause } from '../../base/time/backoff.ts';
import { type ClaimedDelivery, isClaimedDelivery } from './delivery.ts';
import { type ApiClient, type Repetition, repeat, unexpected, unknownDocument } from './http.ts';
import type { AgentSession } from './session.ts';

const ANSWER_TIMEOUT_MS = 30_000;

/** Delay between sign-ins while new sessions are refused. Causes: a wrong clock, or a process that does not know the agent yet. */
const backoff: Backoff = { firstMs: 250, maxMs: 10_000 };

export interface ClaimRequest {
  max: number;
  lease_seconds: number;
  /** How long the server waits for a delivery when none is ready. */
  wait_seconds: number;
  webhook_ids?: readonly string[];
  /** Receipts that the server acknowledges before it looks for deliveries. */
  ack?: readonly string[];
}

export type SettlePath = 'ack' | 'nack' | 'extend';

/** What became of receipts: the leases of those in neither set are lost. */
export interface SettledReceipts {
  done: ReadonlySet<string>;
  /** Their database does not answer now: they are sent again after AWAY_PAUSE_MS. */
  away: ReadonlySet<string>;
}

export const AWAY_PAUSE_MS = 1_000;

type SettleAnswer = ({ kind: 'settled' } & SettledReceipts) | { kind: 'stopped' };

interface ClaimAnswer {
  deliveries: ClaimedDelivery[];
  /** What became of the receipts that the claim took along. */
  settled: SettledReceipts;
}

/** The agent, as `GET /api/v1/agent/me` returns it. */
export interface AgentStatus {
  readonly id: string;
  readonly name: string;
  /** Deliveries that wait for a claim, counted up to 10,000. */
  readonly pending: number;
  /** Null when none is pending. */
  readonly oldest_pending_seconds: number | null;
}

/** Every call is retried until it is answered (http.ts). Rejects with WeirError when a retry cannot help. */
export interface AgentApi {
  /** Null when `signal` ended the call. The server releases deliveries that it claimed for a disconnected client. */
  claim: (order: ClaimRequest, signal: AbortSignal) => Promise<ClaimAnswer | null>;
  /** @param fields request fields besides the receipts, such as `lease_seconds` */
  settle: (path: SettlePath, receipts: readonly string[], fields: object, signal: AbortSignal) => Promise<SettleAnswer>;
  /** Null when `signal` ended the call. */
  me: (signal: AbortSignal) => Promise<AgentStatus | null>;
}

type Call = { method: 'GET'; path: string } | { method: 'POST'; path: string; body: object };

export function agentApi(client: ApiClient, session: AgentSession, repetition: Repetition): AgentApi {
  async function call(request: Call, waitMs: number, signal: AbortSignal): Promise<object | null> {
    for (let refusals = 0; ; refusals++) {
      const token = await session.token(signal);
      if (token === null) return null;
      const timeoutMs = waitMs + ANSWER_TIMEOUT_MS;
      const reply = await repeat(() => client.send({ ...request, token, timeoutMs, signal }), repetition, signal);
      if (reply.kind === 'stopped') return null;
      if (reply.status === 200 && typeof reply.document === 'object' && reply.document !== null) return reply.document;
      if (reply.status !== 401) throw unexpected(client, request.path, reply.status, reply.document);
      session.refused(token);
      // The first refusal is normal: the session has expired.
      if (refusals > 0) await pause(backoffMs(refusals - 1, backoff, Math.random()), signal);
    }
  }

  const post = (name: string, body: object, waitMs: number, signal: AbortSignal) =>
    call({ method: 'POST', path: `api/v1/agent/deliveries/${name}`, body }, waitMs, signal);

  return {
    async claim(order, signal) {
      const document = await post('claim', order, order.wait_seconds * 1000, signal);
      if (document === null) return null;
      const { deliveries, settled = { done: [] } } = document as { deliveries?: unknown; settled?: object };
      const known = settledOf(settled);
      if (Array.isArray(deliveries) && deliveries.every(isClaimedDelivery) && known !== null)
        return { deliveries, settled: known };
      throw unknownDocument(client, 'a claim', 'an unknown document');
    },
    async settle(path, receipts, fields, signal) {
      const document = await post(path, { receipts, ...fields }, 0, signal);
      if (document === null) return { kind: 'stopped' };
      const known = settledOf(document);
      if (known !== null) return { kind: 'settled', ...known };
      throw unknownDocument(client, 'receipts', 'an unknown document');
    },
    async me(signal) {
      const document = await call({ method: 'GET', path: 'api/v1/agent/me' }, 0, signal);
      if (document === null || typeof (document as Partial<AgentStatus>).id === 'string')
        return document as AgentStatus | null;
      throw unknownDocument(client, 'api/v1/agent/me', 'an unknown document');
    },
  };
}

/** Null: an unknown document. */
function settledOf(document: { done?: unknown; away?: unknown }): SettledReceipts | null {
  const { done, away = [] } = document;
  return Array.isArray(done) && Array.isArray(away) ? { done: new Set(done), away: new Set(away) } : null;
}
