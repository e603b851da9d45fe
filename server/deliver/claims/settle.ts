/** Acknowledges, retries or extends leases, by receipt, many per request. */

import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { Agent } from '../../store/queries/agents/agents.ts';
import {
  type Acknowledged,
  parseReceipt,
  type Receipt,
  type Settled,
  type Settlement,
  settleDeliveries,
} from '../../store/queries/claims/settle.ts';

const nothing: Settled = { done: new Set(), changed: [], acknowledged: [] };
const outcomes = { done: 'acknowledged', pending: 'retried', dead: 'dead' } as const;

interface SettleParts {
  database: Database;
  metrics: Pick<Metrics, 'settled'>;
  /** Called when an agent with `max_leased` may claim again. */
  freed: () => void;
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
    const { done, changed, acknowledged } =
      known.length === 0
        ? nothing
        : await settleDeliveries(database, agent.id, known, settlement, agent.maxLeased !== null);
    if (agent.maxLeased !== null && changed.some((state) => state !== 'leased')) freed();
    // A released delivery was not attempted.
    if (settlement.kind !== 'release')
      for (const [state, outcome] of Object.entries(outcomes))
        metrics.settled(agent.id, outcome, changed.filter((each) => each === state).length);
    if (acknowledged.length > 0) onAcknowledged(agent.id, acknowledged);
    return receiptsAnswer(receipts, done);
  };
}

/** Each receipt once. An invalid one is left out, and so answered as gone, like the receipt of a lost lease. */
export function knownReceipts(receipts: readonly string[]): Receipt[] {
  return [...new Set(receipts)].flatMap((text) => parseReceipt(text) ?? []);
}

export interface ReceiptsAnswer {
  done: string[];
  gone: string[];
}

/** The receipts as the agent sent them. */
export function receiptsAnswer(receipts: readonly string[], settled: ReadonlySet<string>): ReceiptsAnswer {
  const answer: ReceiptsAnswer = { done: [], gone: [] };
  for (const text of receipts) answer[settled.has(text.toLowerCase()) ? 'done' : 'gone'].push(text);
  return answer;
}
