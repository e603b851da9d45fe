/** POST /api/v1/agent/deliveries/ack, /nack and /extend: acknowledge, retry or extend leases, by receipt, many per request. */
import { z } from 'zod';
import type { Database } from '../db/pool.ts';
import type { Agent } from '../db/queries/agents.ts';
import { parseReceipt, type Settled, type Settlement, settleDeliveries } from '../db/queries/settle-deliveries.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** In characters, as Postgres counts them. The deliveries table has the same limit. */
const REASON_CHARACTERS_MAX = 500;

/** Cuts between characters, not inside a surrogate pair. Replaces NUL and lone surrogates by U+FFFD: Postgres cannot store them. */
function storable(reason: string): string {
  const wellFormed = Buffer.from(reason.slice(0, 2 * REASON_CHARACTERS_MAX))
    .toString()
    .replaceAll('\0', '\ufffd');
  return Array.from(wellFormed).slice(0, REASON_CHARACTERS_MAX).join('');
}

const receipts = z.array(z.string().max(100)).min(1).max(1000).describe('receipts of claimed deliveries, 1 to 1000');

export const ackSchema = z.strictObject({ receipts });
export const nackSchema = z.strictObject({
  receipts,
  delay_seconds: z
    .number()
    .min(0)
    .max(86_400)
    .optional()
    .describe('time until the deliveries can be claimed again; absent: increases with each attempt'),
  reason: z
    .string()
    .transform(storable)
    .optional()
    .describe(`why the agent refused, stored with the delivery; cut to ${REASON_CHARACTERS_MAX} characters`),
});
export const extendSchema = z.strictObject({
  receipts,
  lease_seconds: z.int().min(5).max(3600).describe('length of the lease from now on'),
});

const nothing: Settled = { done: new Set(), changed: [] };
const outcomes = { done: 'acknowledged', pending: 'retried', dead: 'dead' } as const;

interface SettleParts {
  database: Database;
  metrics: Pick<Metrics, 'settled'>;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

/** Creates the three handlers. Each answers `{"done":[…],"gone":[…]}` with the receipts as the agent sent them. */
export function createSettle({ database, metrics, attemptsMax }: SettleParts) {
  async function settle(
    exchange: Exchange,
    agent: Agent,
    texts: readonly string[],
    settlement: Settlement,
  ): Promise<void> {
    // An invalid receipt is answered as gone, like the receipt of a lost lease.
    const known = [...new Set(texts)].flatMap((text) => parseReceipt(text) ?? []);
    const { done, changed } =
      known.length === 0 ? nothing : await settleDeliveries(database, agent.id, known, settlement);
    for (const state of changed) if (state !== 'leased') metrics.settled(agent.id, outcomes[state], 1);
    const isDone = (text: string) => done.has(text.toLowerCase());
    exchange.json(200, { done: texts.filter(isDone), gone: texts.filter((text) => !isDone(text)) });
  }

  return {
    ack: (exchange: Exchange, agent: Agent, input: z.output<typeof ackSchema>) =>
      settle(exchange, agent, input.receipts, { kind: 'ack' }),
    nack: (exchange: Exchange, agent: Agent, input: z.output<typeof nackSchema>) =>
      settle(exchange, agent, input.receipts, {
        kind: 'nack',
        delaySeconds: input.delay_seconds ?? null,
        reason: input.reason ?? null,
        attemptsMax,
      }),
    extend: (exchange: Exchange, agent: Agent, input: z.output<typeof extendSchema>) =>
      settle(exchange, agent, input.receipts, { kind: 'extend', leaseSeconds: input.lease_seconds }),
  };
}
