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

/** Receipts that were settled; the leases of the other receipts are lost. */
type SettleAnswer = { kind: 'settled'; done: Set<string> } | { kind: 'stopped' };

interface ClaimAnswer {
  deliveries: ClaimedDelivery[];
  /** Receipts that the claim settled; the leases of the other receipts are lost. */
  done: ReadonlySet<string>;
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
      const { deliveries, settled } = document as { deliveries?: unknown; settled?: { done?: unknown } };
      const done = settled === undefined ? [] : settled.done;
      if (Array.isArray(deliveries) && deliveries.every(isClaimedDelivery) && Array.isArray(done))
        return { deliveries, done: new Set(done) };
      throw unknownDocument(client, 'a claim', 'an unknown document');
    },
    async settle(path, receipts, fields, signal) {
      const document = await post(path, { receipts, ...fields }, 0, signal);
      if (document === null) return { kind: 'stopped' };
      const { done } = document as { done?: unknown };
      if (Array.isArray(done)) return { kind: 'settled', done: new Set(done) };
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
