/** Metrics of the whole database. However often the page is scraped, they are read at most every few seconds. */

import { SharedCheck } from '../../base/http/shared-check.ts';
import type { Database, Query } from '../../store/pool.ts';
import { readAgentNames } from '../../store/queries/agents.ts';
import { type DeliveryDepths, readDeliveryDepths, withinTimeout } from '../../store/queries/delivery-counts.ts';
import { readDatabaseBytes, readDatabaseClock } from '../../store/queries/server-state.ts';
import { readTemporaryAgents } from '../../store/queries/temporary-agents.ts';

export interface DatabaseFigures extends DeliveryDepths {
  /** Agents that have their own series, by id. */
  names: { id: string; name: string }[];
  databaseBytes: number;
  /** Unix milliseconds. */
  readAtMs: number;
  /** How far the clock of the database was ahead of the one of this machine. Its times are by its own clock. */
  clockAheadMs: number;
}

/** Maximum number of agents with their own series: active agents first, then oldest first. All others share one series. */
export const AGENT_SERIES_MAX = 100;
/** Minimum cache lifetime. A slow read extends it, so that reads take at most BUSY_SHARE_MAX of the time. */
const KEPT_MS = 5_000;
const BUSY_SHARE_MAX = 0.05;
/** Longest wait of a scrape. A scrape that times out returns the previous figures. */
const PATIENCE_MS = 1_000;

export class FigureReader {
  readonly #database: Database;
  readonly #check: SharedCheck<boolean>;
  #newest: DatabaseFigures | null = null;
  #tookMs = 0;

  /** @param nowMs monotonic clock, milliseconds. */
  constructor(database: Database, nowMs: () => number = () => performance.now()) {
    this.#database = database;
    this.#check = new SharedCheck({
      ask: async () => {
        const startedMs = nowMs();
        await this.#read().finally(() => {
          this.#tookMs = nowMs() - startedMs;
        });
        return true;
      },
      validMs: () => Math.max(KEPT_MS, this.#tookMs / BUSY_SHARE_MAX),
      patienceMs: PATIENCE_MS,
      late: false,
      nowMs,
    });
  }

  /** Returns the latest figures within PATIENCE_MS; null before the first successful read. */
  async figures(): Promise<DatabaseFigures | null> {
    await this.#check.answer();
    return this.#newest;
  }

  async #read(): Promise<void> {
    const depths = await readDeliveryDepths(this.#database);
    this.#newest = await withinTimeout(this.#database, async (query) => ({
      exact: depths.exact,
      agents: await withoutTemporary(query, depths.agents),
      names: await readAgentNames({ query }, AGENT_SERIES_MAX),
      databaseBytes: await readDatabaseBytes({ query }),
      readAtMs: Date.now(),
      clockAheadMs: (await readDatabaseClock({ query })) - Date.now(),
    }));
  }
}

/** The backlog of a temporary agent raises no alert: a developer may stop it at any time. */
async function withoutTemporary(query: Query, agents: DeliveryDepths['agents']): Promise<DeliveryDepths['agents']> {
  const temporary = await readTemporaryAgents({ query });
  return agents.filter(({ agentId }) => !temporary.has(agentId));
}
