/** What the primary does when it hears of a change in the database, or nothing more of an embedded one. */
import type { Log } from '../../base/telemetry/log.ts';
import { backoffMs } from '../../base/time/backoff.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { ChangeListener } from '../../store/connect/listen.ts';
import type { Members } from './members.ts';
import type { PrimarySpool } from './spool.ts';

interface ListenerParts {
  conninfo: string;
  cells: Cells;
  log: Log;
  spool: PrimarySpool;
  revive: () => Promise<void>;
}

export function createListener(
  { conninfo, cells, log, spool, revive }: ListenerParts,
  members: Members,
): ChangeListener {
  const revival = new Revival(revive, log);
  return new ChangeListener(conninfo, {
    change: relayChange(cells, spool, members),
    arrived: (by) => members.broadcast({ kind: 'arrived', by }),
    alive: () => members.broadcast({ kind: 'heartbeat' }),
    lost: () => revival.try(),
    up: () => {
      log('listener_up');
      void cells.changed().catch(() => {});
      spool.webhooksChanged();
      members.broadcast({ kind: 'changes_lost' });
    },
    down: (reason) => log('listener_down', { reason }),
  });
}

const PAUSE = { firstMs: 1_000, maxMs: 15_000 };

/** Starts an embedded server that has ended again: with longer pauses after each failure, and one line in the log for each reason. */
export class Revival {
  readonly #revive: () => Promise<void>;
  readonly #log: Log;
  readonly #nowMs: () => number;
  #failures = 0;
  #dueMs = 0;
  #reported: string | null = null;

  constructor(revive: () => Promise<void>, log: Log, nowMs = () => performance.now()) {
    this.#revive = revive;
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Tries it, unless the last failure was a moment ago. Never rejects. */
  async try(): Promise<void> {
    if (this.#nowMs() < this.#dueMs) return;
    try {
      await this.#revive();
      this.#failures = 0;
      this.#reported = null;
    } catch (error) {
      this.#dueMs = this.#nowMs() + backoffMs(this.#failures++, PAUSE, Math.random());
      const reason = (error as Error).message;
      // The lines after the first are from the log of Postgres, with times.
      const [cause] = reason.split('\n') as [string];
      if (cause !== this.#reported) this.#log('database_start_failed', { reason });
      this.#reported = cause;
    }
  }
}

/** Applies a change in the primary, then in the processes, also when the primary could not read the cells: then it rejects. */
export function relayChange(
  cells: Pick<Cells, 'changed'>,
  spool: Pick<PrimarySpool, 'webhooksChanged'>,
  members: Pick<Members, 'applyEverywhere'>,
): (payload: string) => Promise<void> {
  return async (payload) => {
    if (!payload.startsWith('call:')) spool.webhooksChanged();
    try {
      if (payload.startsWith('cell:')) await cells.changed();
    } finally {
      await members.applyEverywhere(payload);
    }
  };
}
