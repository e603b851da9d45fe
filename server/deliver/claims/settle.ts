/** Acknowledges, retries or extends leases, by receipt, many per request. */
import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { ActiveAgent } from '../../store/queries/agents/active-agents.ts';
import { parseReceipt, type Receipt } from '../../store/queries/claims/receipts.ts';
import {
  type Acknowledged,
  type LeaseChange,
  nothingSettled,
  type Settled,
  settleDeliveries,
} from '../../store/queries/claims/settle.ts';

const outcomes = { done: 'acknowledged', pending: 'retried', dead: 'dead' } as const;

export interface Refusal {
  release?: boolean | undefined;
  delay_seconds?: number | undefined;
  reason?: string | undefined;
}

interface SettleParts {
  database: Database;
  metrics: Pick<Metrics, 'settled'>;
  /** Called when an agent with `max_leased` may claim again, or a delivery is no longer held by another one with its key. */
  freed: (agentId: string) => void;
  onAcknowledged: (agentId: string, acknowledged: readonly Acknowledged[]) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

/** Creates the functions that settle deliveries of an agent. They return the receipts as the agent sent them. */
export function createSettle({ database, metrics, freed, onAcknowledged, attemptsMax }: SettleParts) {
  /** Reports what was settled. @param isAttempt false: the deliveries were not attempted */
  function answer(agent: ActiveAgent, receipts: readonly string[], settled: Settled, isAttempt = true): ReceiptsAnswer {
    const { changed, frees, acknowledged } = settled;
    if (frees || (agent.maxLeased !== null && changed.some((state) => state !== 'leased'))) freed(agent.id);
    if (isAttempt)
      for (const [state, outcome] of Object.entries(outcomes))
        metrics.settled(agent.id, outcome, changed.filter((each) => each === state).length);
    if (acknowledged.length > 0) onAcknowledged(agent.id, acknowledged);
    return receiptsAnswer(receipts, settled);
  }

  async function settle(
    agent: ActiveAgent,
    receipts: readonly string[],
    settlement: LeaseChange,
  ): Promise<ReceiptsAnswer> {
    const known = knownReceipts(receipts);
    const kind = { isLimited: agent.maxLeased !== null, isOrdered: agent.ordered };
    const settled =
      known.length === 0 ? nothingSettled : await settleDeliveries(database, agent.id, known, settlement, kind);
    return answer(agent, receipts, settled, settlement.kind !== 'release');
  }

  function refuse(agent: ActiveAgent, receipts: readonly string[], refusal: Refusal): Promise<ReceiptsAnswer> {
    const { release, delay_seconds: delaySeconds = null, reason = null } = refusal;
    return settle(agent, receipts, release ? { kind: 'release' } : { kind: 'nack', delaySeconds, reason, attemptsMax });
  }

  /** Settles what a claim sends with it. Equal refusals share a statement. Returns null when there is nothing to settle. */
  async function settleAll(
    agent: ActiveAgent,
    { ack, nack }: { ack: readonly string[]; nack: readonly (Refusal & { receipt: string })[] },
  ): Promise<ReceiptsAnswer | null> {
    if (ack.length + nack.length === 0) return null;
    const answers = ack.length === 0 ? [] : [await settle(agent, ack, { kind: 'ack' })];
    const equal = new Map<string, { refusal: Refusal; receipts: string[] }>();
    for (const { receipt, ...refusal } of nack) {
      const key = JSON.stringify(refusal);
      if (!equal.has(key)) equal.set(key, { refusal, receipts: [] });
      equal.get(key)!.receipts.push(receipt);
    }
    for (const { refusal, receipts } of equal.values()) answers.push(await refuse(agent, receipts, refusal));
    return joinedAnswer(answers);
  }

  return { settle, refuse, settleAll, answer };
}

/** Parses receipts, each once. An invalid one is left out, so the answer lists it as gone, like the receipt of a lost lease. */
export function knownReceipts(receipts: readonly string[]): Receipt[] {
  return [...new Set(receipts)].flatMap((text) => parseReceipt(text) ?? []);
}

export interface ReceiptsAnswer {
  done: string[];
  gone: string[];
  /** Receipts whose cell is away; absent: none. */
  away?: string[];
}

function receiptsAnswer(receipts: readonly string[], { done, away }: Pick<Settled, 'done' | 'away'>): ReceiptsAnswer {
  const kindOf = (text: string) => (done.has(text) ? 'done' : away.has(text) ? 'away' : 'gone');
  const answer = { done: [] as string[], gone: [] as string[], away: [] as string[] };
  for (const text of receipts) answer[kindOf(text.toLowerCase())].push(text);
  return joinedAnswer([answer]);
}

function joinedAnswer(answers: readonly ReceiptsAnswer[]): ReceiptsAnswer {
  const away = answers.flatMap((answer) => answer.away ?? []);
  return {
    done: answers.flatMap(({ done }) => done),
    gone: answers.flatMap(({ gone }) => gone),
    ...(away.length > 0 && { away }),
  };
}
