/** POST /api/v1/agent/deliveries/ack, /nack and /extend: what became of a lease, by receipt, many at a time. */
import { z } from 'zod';
import type { Database } from '../db/pool.ts';
import type { Agent } from '../db/queries/read-agents.ts';
import { type Settled, type Settlement, settleDeliveries } from '../db/queries/settle-deliveries.ts';
import { parseReceipt } from '../db/receipt.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** Postgres counts characters; the schema of deliveries has the same limit. */
const REASON_CHARACTERS_MAX = 500;

/** Cut between characters, not inside a surrogate pair. Postgres stores no NUL and no half of a pair: U+FFFD stands for them. */
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
    .describe('how long until it can be claimed again; absent: longer with each attempt'),
  reason: z
    .string()
    .transform(storable)
    .optional()
    .describe(`why, kept with the delivery; cut to ${REASON_CHARACTERS_MAX} characters`),
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

/** Handlers of the three; each answers `{"done":[…],"gone":[…]}` with the receipts as they came. */
export function createSettle({ database, metrics, attemptsMax }: SettleParts) {
  async function settle(
    exchange: Exchange,
    agent: Agent,
    texts: readonly string[],
    settlement: Settlement,
  ): Promise<void> {
    // A text that is no receipt names a lease that never was: it is gone, like one that was lost.
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
