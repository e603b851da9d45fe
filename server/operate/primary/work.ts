/** What the primary does with a prepared database: listen for changes, drain the spool, maintain, run jobs. */

import { runJobs } from '../../deliver/replay/run.ts';
import { openDatabase } from '../../store/connect/pool.ts';
import { runCells } from './cells.ts';
import { runMaintenance } from './maintenance.ts';
import type { Serving, Shared } from './serving.ts';
import type { PrimarySpool } from './spool.ts';

/** One for the lock, one for the batches. */
const JOB_CONNECTIONS = 2;

/** Starts this work, and pushes the steps that stop it. */
export function startWork(
  { state, conninfo, database, cells, log, undo }: Shared,
  serving: Serving,
  spool: PrimarySpool,
): void {
  const { listener, page } = serving;
  listener.start();
  undo.push(() => listener.stop());
  spool.drain();
  undo.push(
    runMaintenance({
      database,
      cells,
      log,
      settings: () => state.settings,
      onHorizon: serving.setHorizon,
      onLastLeases: (agentIds) => page.lastLeasesEnded(agentIds),
      onUnhandled: (deliveries) => page.deliveriesUnhandled(deliveries),
      onMaintained: () => page.maintained(),
    }),
  );
  const jobsDatabase = openDatabase(conninfo, { connectionsMax: JOB_CONNECTIONS, applicationName: 'weir-jobs' });
  undo.push(() => jobsDatabase.close());
  undo.push(runCells(cells, log));
  undo.push(
    runJobs({
      database: cells.over(jobsDatabase),
      log,
      perSecond: () => state.settings.REPLAY_DELIVERIES_PER_SECOND,
      onReplayed: (events) => page.eventsReplayed(events),
    }),
  );
}
