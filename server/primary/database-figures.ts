/** What the metrics page tells of the whole database: read at most every few seconds, however often it is scraped. */

import type { Database } from '../db/pool.ts';
import { withinTimeout } from '../db/queries/count-deliveries.ts';
import { type DeliveryDepths, readDeliveryDepths } from '../db/queries/delivery-depths.ts';
import { readAgentNames } from '../db/queries/read-agents.ts';
import { readDatabaseBytes } from '../db/queries/server-state.ts';
import { SharedCheck } from '../http/shared-check.ts';

export interface DatabaseFigures extends DeliveryDepths {
  /** Agents with a series of their own, by id. */
  names: { id: string; name: string }[];
  databaseBytes: number;
  /** Unix milliseconds. */
  readAtMs: number;
}

/** Agents that are given a series of their own, active ones and the oldest first; all others share one. */
export const AGENT_SERIES_MAX = 100;
/** Figures are kept this long, and longer where it took long to read them: at most so much of the time is spent on it. */
const KEPT_MS = 5_000;
const BUSY_SHARE_MAX = 0.05;
/** How long a scrape waits; one that is over sooner shows the figures from before. */
const PATIENCE_MS = 1_000;

export class FigureReader {
  readonly #database: Database;
  readonly #check: SharedCheck<boolean>;
  #newest: DatabaseFigures | null = null;
  #tookMs = 0;

  /** @param nowMs milliseconds of a clock that only goes forward. */
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

  /** The newest that could be read; null before the first. Resolves within PATIENCE_MS. */
  async figures(): Promise<DatabaseFigures | null> {
    await this.#check.answer();
    return this.#newest;
  }

  async #read(): Promise<void> {
    const depths = await readDeliveryDepths(this.#database);
    this.#newest = await withinTimeout(this.#database, async (query) => ({
      ...depths,
      names: await readAgentNames({ query }, AGENT_SERIES_MAX),
      databaseBytes: await readDatabaseBytes({ query }),
      readAtMs: Date.now(),
    }));
  }
}
