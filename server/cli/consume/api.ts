/** API calls of an agent. Each call uses the agent's session. */
import { type Backoff, backoffMs, pause } from '../../net/backoff.ts';
import { CommandError } from '../io.ts';
import { type ApiClient, type Repetition, repeat, unexpected } from './client.ts';
import { type Delivery, isDelivery } from './delivery.ts';
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
}

export type SettlePath = 'ack' | 'nack' | 'extend';

/** Receipts that were settled; the leases of the other receipts are lost. */
type SettleAnswer = { kind: 'settled'; done: Set<string> } | { kind: 'stopped' };

/** Every call is retried until it is answered (repeat.ts). Rejects with CommandError when a retry cannot help. */
export interface AgentApi {
  /** Null when `signal` ended the call. The server releases deliveries that it claimed for a disconnected client. */
  claim: (order: ClaimRequest, signal: AbortSignal) => Promise<Delivery[] | null>;
  /** @param fields request fields besides the receipts, such as `lease_seconds` */
  settle: (path: SettlePath, receipts: readonly string[], fields: object) => Promise<SettleAnswer>;
}

/** @param repetition its signal ends every call except claims, which have their own signal */
export function agentApi(client: ApiClient, session: AgentSession, repetition: Repetition): AgentApi {
  async function call(name: string, body: object, waitMs: number, signal: AbortSignal): Promise<object | null> {
    const path = `api/v1/agent/deliveries/${name}`;
    for (let refusals = 0; ; refusals++) {
      const token = await session.token(signal);
      if (token === null) return null;
      const timeoutMs = waitMs + ANSWER_TIMEOUT_MS;
      const reply = await repeat(() => client.post({ path, token, body, timeoutMs, signal }), {
        ...repetition,
        signal,
      });
      if (reply.kind === 'stopped') return null;
      if (reply.status === 200 && typeof reply.document === 'object' && reply.document !== null) return reply.document;
      if (reply.status !== 401) throw unexpected(client.base, path, reply.status, reply.document);
      session.refused(token);
      // The first refusal is normal: the session has expired.
      if (refusals > 0) await pause(backoffMs(refusals - 1, backoff, Math.random()), signal);
    }
  }

  return {
    async claim(order, signal) {
      const document = await call('claim', order, order.wait_seconds * 1000, signal);
      if (document === null) return null;
      const { deliveries } = document as { deliveries?: unknown };
      if (Array.isArray(deliveries) && deliveries.every(isDelivery)) return deliveries;
      throw new CommandError(`${client.base} answered a claim with an unknown document; is it a Weir server?`);
    },
    async settle(path, receipts, fields) {
      const document = await call(path, { receipts, ...fields }, 0, repetition.signal);
      if (document === null) return { kind: 'stopped' };
      const { done } = document as { done?: unknown };
      if (Array.isArray(done)) return { kind: 'settled', done: new Set(done) };
      throw new CommandError(`${client.base} answered receipts with an unknown document; is it a Weir server?`);
    },
  };
}
