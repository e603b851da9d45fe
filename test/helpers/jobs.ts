/** Jobs in tests: run in the process of the test, on a pool of their own, as by a primary. */

import { runJobs } from '../../server/deliver/replay/run.ts';
import type { Cells } from '../../server/store/cells/cells.ts';
import { openDatabase } from '../../server/store/connect/pool.ts';

/** A rate that never makes a job pause for long. */
export const FAST = 1_000_000;
/** A rate at which the pause after the first full batch outlasts a test. */
export const HELD = 0.1;

export interface Runner {
  /** Events that it has replayed. */
  events: number;
  /** Names of its log lines. */
  lines: string[];
  stop(): Promise<void>;
}

/** Runs the jobs of a database, as an installation of its own. */
/** @param cells those of the installation; absent: it has none */
export function startRunner({ conninfo }: { conninfo: string }, perSecond: number, cells?: Cells): Runner {
  const database = openDatabase(conninfo, { connectionsMax: 2, applicationName: 'weir-jobs', onError: () => {} });
  const runner: Runner = {
    events: 0,
    lines: [],
    async stop() {
      await stop();
      await database.close();
    },
  };
  const stop = runJobs({
    database: cells?.over(database) ?? database,
    log: (event) => void runner.lines.push(event),
    perSecond: () => perSecond,
    onReplayed: (events) => {
      runner.events += events;
    },
  });
  return runner;
}
