/** Acknowledges, retries or extends leases, by receipt, many per request. */

import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { Agent } from '../../store/queries/agents/agents.ts';
import { parseReceipt, type Receipt } from '../../store/queries/claims/receipts.ts';
import {
  type Acknowledged,
  nothingSettled,
  type Settled,
  type Settlement,
  settleDeliveries,
} from '../../store/queries/claims/settle.ts';

const outcomes = { done: 'acknowledged', pending: 'retried', dead: 'dead' } as const;

interface SettleParts {
  database: Database;
  metrics: Pick<Metrics, 'settled'>;
  /** Called when an agent with `max_leased` may claim again. */
  freed: (agentId: string) => void;
  onAcknowledged: (agentId: string, acknowledged: readonly Acknowledged[]) => void;
}

/** Creates the function that settles deliveries of an agent. It returns the receipts as the agent sent them. */
export function createSettle({ database, metrics, freed, onAcknowledged }: SettleParts) {
  return async function settle(
    agent: Agent,
    receipts: readonly string[],
    settlement: Settlement,
  ): Promise<ReceiptsAnswer> {
    const known = knownReceipts(receipts);
    const { done, changed, acknowledged, away } =
      known.length === 0
        ? nothingSettled
        : await settleDeliveries(database, agent.id, known, settlement, agent.maxLeased !== null);
    if (agent.maxLeased !== null && changed.some((state) => state !== 'leased')) freed(agent.id);
    // A released delivery was not attempted.
    if (settlement.kind !== 'release')
      for (const [state, outcome] of Object.entries(outcomes))
        metrics.settled(agent.id, outcome, changed.filter((each) => each === state).length);
    if (acknowledged.length > 0) onAcknowledged(agent.id, acknowledged);
    return receiptsAnswer(receipts, { done, away });
  };
}

/** Each receipt once. An invalid one is left out, and so answered as gone, like the receipt of a lost lease. */
export function knownReceipts(receipts: readonly string[]): Receipt[] {
  return [...new Set(receipts)].flatMap((text) => parseReceipt(text) ?? []);
}

export interface ReceiptsAnswer {
  done: string[];
  gone: string[];
  /** Absent: no cell of theirs is away. */
  away?: string[];
}

/** The receipts as the agent sent them. */
export function receiptsAnswer(
  receipts: readonly string[],
  { done, away }: Pick<Settled, 'done' | 'away'>,
): ReceiptsAnswer {
  const kindOf = (text: string) => (done.has(text) ? 'done' : away.has(text) ? 'away' : 'gone');
  const answer = { done: [] as string[], gone: [] as string[], away: [] as string[] };
  for (const text of receipts) answer[kindOf(text.toLowerCase())].push(text);
  return joinedAnswer([answer]);
}

/** One answer for several settlements. */
export function joinedAnswer(answers: readonly ReceiptsAnswer[]): ReceiptsAnswer {
  const away = answers.flatMap((answer) => answer.away ?? []);
  return {
    done: answers.flatMap(({ done }) => done),
    gone: answers.flatMap(({ gone }) => gone),
    ...(away.length > 0 && { away }),
  };
}
