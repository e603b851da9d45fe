/** Counts in memory how the attempts of agents end, and writes the counts every few seconds in one statement. */
import type { Metrics } from '../../base/telemetry/metrics.ts';
import { quarterOf } from '../../model/history.ts';
import type { AgentHistoryRow } from '../../store/queries/agents/history.ts';
import { WriteBehind } from '../../store/write-behind.ts';

const EVERY_MS = 10_000;

type Counted = Pick<Metrics, 'settled' | 'leasesExpired'>;

export class AgentCounts {
  readonly #rows: WriteBehind<AgentHistoryRow>;
  readonly #nowMs: () => number;

  /** @param nowMs Unix milliseconds */
  constructor(write: (rows: readonly AgentHistoryRow[]) => Promise<void>, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    this.#rows = new WriteBehind((rows) => write([...rows.values()]), sumOf, { everyMs: EVERY_MS });
  }

  /** The metrics of claims, with the leases that expired counted here too. What filters exclude is not an attempt. */
  ofClaims(metrics: Counted): Counted {
    return {
      settled: (agentId, outcome, deliveries) => metrics.settled(agentId, outcome, deliveries),
      leasesExpired: (agentId, leases) => {
        metrics.leasesExpired(agentId, leases);
        this.#note(agentId, 0, leases);
      },
    };
  }

  /** The metrics of settlements, counted here too: acknowledged and rejected attempts. */
  ofSettlements(metrics: Pick<Counted, 'settled'>): Pick<Counted, 'settled'> {
    return {
      settled: (agentId, outcome, deliveries) => {
        metrics.settled(agentId, outcome, deliveries);
        if (outcome === 'acknowledged') this.#note(agentId, deliveries, 0);
        else this.#note(agentId, 0, deliveries);
      },
    };
  }

  /** Writes the counts after any write under way. After an error they are kept for the next write. */
  flush(): Promise<void> {
    return this.#rows.flush();
  }

  close(): Promise<void> {
    return this.#rows.close();
  }

  #note(agentId: string, acknowledged: number, failed: number): void {
    if (acknowledged === 0 && failed === 0) return;
    const atMs = quarterOf(this.#nowMs());
    this.#rows.note(`${atMs} ${agentId}`, { agentId, atMs, acknowledged, failed });
  }
}

function sumOf(row: AgentHistoryRow, other: AgentHistoryRow): AgentHistoryRow {
  return { ...row, acknowledged: row.acknowledged + other.acknowledged, failed: row.failed + other.failed };
}
