/** Metrics of the whole database. However often the page is scraped, they are read at most every few seconds. */

import { SharedCheck } from '../../base/time/shared-check.ts';
import { within } from '../../base/time/within.ts';
import type { CellDatabase, CellList } from '../../store/cells/cells-database.ts';
import { readAgentNames } from '../../store/queries/agents/agents.ts';
import { readTemporaryAgents } from '../../store/queries/agents/temporary.ts';
import { type DeliveryDepths, readDeliveryDepths, withinTimeout } from '../../store/queries/deliveries/counts.ts';
import { readDatabaseBytes, readDatabaseClock } from '../../store/queries/server-state.ts';

interface CellFigures extends DeliveryDepths {
  /** Number of the cell; 0: home. */
  cell: number;
  databaseBytes: number;
  /** How far the clock of the database, which sets its times, was ahead of the monotonic clock of this process. */
  clockAheadMs: number;
}

export interface DatabaseFigures {
  /** Agents that have their own series, by id. */
  names: { id: string; name: string }[];
  /** Home first, then the other cells that answered. */
  cells: CellFigures[];
  /** Unix milliseconds. */
  readAtMs: number;
}

/** Maximum number of agents with their own series: active agents first, then oldest first. All others share one series. */
export const AGENT_SERIES_MAX = 100;
/** Minimum cache lifetime. A slow read extends it, so that reads take at most BUSY_SHARE_MAX of the time. */
const KEPT_MS = 5_000;
const BUSY_SHARE_MAX = 0.05;
/** Longest wait of the first scrape, and of one that then returns the previous figures. A read of 1,000,000 deliveries takes longer. */
const PATIENCE_MS = 1_000;
const AGAIN_PATIENCE_MS = 50;

/**
 * Returns a function that resolves with the latest figures within AGAIN_PATIENCE_MS; with null before the first successful read, which it
 * awaits for PATIENCE_MS.
 * @param nowMs monotonic clock, in milliseconds
 */
export function figureReader(cells: Pick<CellList, 'all'>, nowMs = () => performance.now()) {
  let newest: DatabaseFigures | null = null;
  let tookMs = 0;
  const check = new SharedCheck({
    ask: async () => {
      const startedMs = nowMs();
      newest = await readFigures(cells.all()).finally(() => {
        tookMs = nowMs() - startedMs;
      });
      return true;
    },
    validMs: () => Math.max(KEPT_MS, tookMs / BUSY_SHARE_MAX),
    patienceMs: PATIENCE_MS,
    late: false,
    nowMs,
  });
  return async (): Promise<DatabaseFigures | null> => {
    const read = check.answer();
    await (newest === null ? read : within(AGAIN_PATIENCE_MS, read));
    return newest;
  };
}

async function readFigures([home, ...others]: readonly CellDatabase[]): Promise<DatabaseFigures> {
  const cells = [
    await readCell(home!),
    ...(await Promise.all(others.map((cell) => (cell.away === null ? readCell(cell).catch(() => null) : null)))),
  ].filter((figures) => figures !== null);
  return withinTimeout(home!.database, async (query) => {
    // The backlog of a temporary agent raises no alert: a developer may stop it at any time.
    const temporary = await readTemporaryAgents({ query });
    return {
      names: await readAgentNames({ query }, AGENT_SERIES_MAX),
      cells: cells.map((figures) => ({
        ...figures,
        agents: figures.agents.filter(({ agentId }) => !temporary.has(agentId)),
      })),
      readAtMs: Date.now(),
    };
  });
}

async function readCell({ number: cell, database }: CellDatabase): Promise<CellFigures> {
  const depths = await readDeliveryDepths(database);
  return withinTimeout(database, async (query) => ({
    ...depths,
    cell,
    databaseBytes: await readDatabaseBytes({ query }),
    clockAheadMs: (await readDatabaseClock({ query })) - performance.now(),
  }));
}
