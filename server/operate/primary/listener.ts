/** What the primary does when the database announces a change, and when an embedded database stops answering. */
import type { Log } from '../../base/telemetry/log.ts';
import { backoffMs } from '../../base/time/backoff.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { ChangeListener } from '../../store/connect/listen.ts';
import type { Children } from './children.ts';
import type { PrimarySpool } from './spool.ts';

interface ListenerParts {
  conninfo: string;
  cells: Cells;
  log: Log;
  spool: PrimarySpool;
  revive: () => Promise<void>;
}

/** The listener of the primary. `revive` restarts an embedded server that was killed. */
export function createListener(
  { conninfo, cells, log, spool, revive }: ListenerParts,
  children: Children,
): ChangeListener {
  return new ChangeListener(conninfo, {
    change: relayChange(cells, spool, children),
    arrived: (by) => children.broadcast({ kind: 'arrived', by }),
    alive: () => children.broadcast({ kind: 'heartbeat' }),
    lost: reviver(revive, log),
    up: () => {
      log('listener_up');
      void cells.load().catch(() => {});
      spool.webhooksChanged();
      children.broadcast({ kind: 'changes_lost' });
    },
    down: (reason) => log('listener_down', { reason }),
  });
}

const PAUSE = { firstMs: 1_000, maxMs: 15_000 };

/**
 * Returns a function that restarts an embedded server that has ended. After a failure it does nothing for a while, longer after each one. The
 * log gets one line for each reason. It never rejects.
 * @param revive does nothing while the server runs
 */
export function reviver(revive: () => Promise<void>, log: Log, nowMs = () => performance.now()) {
  let failures = 0;
  let dueMs = 0;
  let reported: string | null = null;
  return async (): Promise<void> => {
    if (nowMs() < dueMs) return;
    try {
      await revive();
      failures = 0;
      reported = null;
    } catch (error) {
      dueMs = nowMs() + backoffMs(failures++, PAUSE, Math.random());
      const reason = (error as Error).message;
      // The first line is the cause; the others are log lines of Postgres with times.
      const [cause] = reason.split('\n') as [string];
      if (cause !== reported) log('database_start_failed', { reason });
      reported = cause;
    }
  };
}

/** Returns a function that applies a change in the primary, then in the processes. It rejects when the primary could not read the cells. */
export function relayChange(
  cells: Pick<Cells, 'load'>,
  spool: Pick<PrimarySpool, 'webhooksChanged'>,
  children: Pick<Children, 'applyEverywhere'>,
): (payload: string) => Promise<void> {
  return async (payload) => {
    if (!payload.startsWith('call:')) spool.webhooksChanged();
    try {
      if (payload.startsWith('cell:')) await cells.load();
    } finally {
      await children.applyEverywhere(payload);
    }
  };
}
