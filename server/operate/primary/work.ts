/** What the primary does with a prepared database: listen for changes, drain the spool, maintain, run jobs. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../base/telemetry/log.ts';
import { runJobs } from '../../deliver/replay/run.ts';
import { type Database, openDatabase } from '../../store/connect/pool.ts';
import { fillWalPool, freeWalBytes } from '../../store/embedded/wal-pool.ts';
import { runCells } from './cells.ts';
import { runMaintenance } from './maintenance.ts';
import type { Serving, Shared } from './serving.ts';
import type { PrimarySpool } from './spool.ts';

/** One for the lock, one for the batches. */
const JOB_CONNECTIONS = 2;
/** A Weir that is started for a moment makes no WAL files. */
const WAL_POOL_AFTER_MS = 10_000;

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
      onUnhandled: (deliveries) => page.count('weir_deliveries_unhandled_total', deliveries),
      onMaintained: () => page.maintained(),
    }),
  );
  if (state.settings.database.kind === 'embedded') undo.push(keepWalPool(database, state.settings.DATA_DIR, log));
  const jobsDatabase = openDatabase(conninfo, { connectionsMax: JOB_CONNECTIONS, applicationName: 'weir-jobs' });
  undo.push(() => jobsDatabase.close());
  undo.push(runCells(cells, log));
  undo.push(
    runJobs({
      database: cells.over(jobsDatabase),
      log,
      perSecond: () => state.settings.REPLAY_DELIVERIES_PER_SECOND,
      onReplayed: (events) => page.count('weir_events_replayed_total', events),
    }),
  );
}

/** Fills the pool of WAL files once. The returned function ends that. */
function keepWalPool(database: Database, dataDir: string, log: Log): () => Promise<void> {
  const stopping = new AbortController();
  const fill = async () => {
    await delay(WAL_POOL_AFTER_MS, undefined, stopping);
    const files = await fillWalPool(database, await freeWalBytes(dataDir), stopping.signal);
    if (files > 0) log('wal_files_made', { files });
  };
  const filling = fill().catch((error: Error) => {
    if (!stopping.signal.aborted) log('wal_files_failed', { reason: error.message });
  });
  return async () => {
    stopping.abort();
    await filling;
  };
}
