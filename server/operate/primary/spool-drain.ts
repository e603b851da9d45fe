/** Drains the spool while the database answers: the files of each cell by a loop of their own, so that a cell that is away holds up no other. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../base/telemetry/log.ts';
import { backoffMs } from '../../base/time/backoff.ts';
import { type CellTarget, cellOfFile, drainOf } from '../../receive/spool/cell-target.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import { type Drain, waitingFiles } from '../../receive/spool/drain.ts';
import { addCounts, type DrainCounts, type DrainTotals, noTotals } from '../../receive/spool/store.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';

interface SpoolDrainParts {
  folder: string;
  cells: Cells;
  /** RETENTION_DAYS */
  retentionDays: () => number;
  log: Log;
}

/** How often the folder is read, and the pauses while a cell does not answer. */
const CHECK_EVERY_MS = 1_000;
const RETRY = { firstMs: 200, maxMs: 5_000 };
/** A database that hangs keeps the last transaction no longer than this. */
const STOP_MS = 3_000;

interface Loop {
  drain: Drain;
  target: CellTarget;
  ended: Promise<void>;
}

export class SpoolDrain {
  readonly #parts: SpoolDrainParts;
  /** What was drained, over all cells. */
  readonly total = noTotals();
  /** By the number of the cell: one that gets another connection string waits for the end of the loop before. */
  readonly #loops = new Map<number, Loop>();
  readonly #stopping = new AbortController();
  #watching = Promise.resolve();

  constructor(parts: SpoolDrainParts) {
    this.#parts = parts;
  }

  /** The schema must be that of this release. */
  start(): void {
    this.#watching = this.#watchFolder();
  }

  /** Resolves after the transactions in progress. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#watching;
    const loops = [...this.#loops.values()];
    for (const { drain } of loops) drain.stop();
    const ended = Promise.all(loops.map((loop) => loop.ended));
    await Promise.race([ended, delay(STOP_MS, null, { ref: false })]);
    for (const { target } of loops) target.close();
    await ended;
  }

  async #watchFolder(): Promise<void> {
    const { cells, folder } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const files = await waitingFiles(realDisk, folder);
        // A cell that was added since is not taken for one that was removed.
        if (files.some(({ cell }) => !cells.known || cells.find(cell) === undefined)) await cells.changed();
        for (const cell of new Set(files.map((file) => cellOfFile(cells, file))))
          if (!this.#loops.has(cell.number)) this.#begin(cell);
      } catch {
        // The folder cannot be read, or home does not answer: it is read again.
      }
      await delay(CHECK_EVERY_MS, null, { signal }).catch(() => {});
    }
  }

  #begin(cell: Cell): void {
    const { cells, folder, retentionDays, log } = this.#parts;
    const counts = noTotals();
    const observer = {
      committed: (more: DrainCounts) => {
        addCounts(counts, more);
        addCounts(this.total, more);
      },
      refused: (sqlState: string, reason: string) => {
        counts.refused++;
        this.total.refused++;
        log('spool_event_refused', { sql_state: sqlState, reason });
      },
      damaged: (file: string) => log('spool_damaged', { file }),
    };
    const { drain, target } = drainOf({ cells, folder, retentionDays, observer }, cell);
    const ended = this.#run(cell, drain, counts).finally(() => {
      target.close();
      this.#loops.delete(cell.number);
    });
    this.#loops.set(cell.number, { drain, target, ended });
  }

  /** Drains until no file of the cell is left, or the cell is not used any more. */
  async #run(cell: Cell, drain: Drain, counts: DrainTotals): Promise<void> {
    const { cells, log } = this.#parts;
    const { signal } = this.#stopping;
    const cellField = cell.number === 0 ? {} : { cell: cell.number };
    const startedMs = performance.now();
    for (let failures = 0; !signal.aborted && cells.find(cell.number) === cell; failures++) {
      const outcome = await drain
        .run()
        .catch((error: Error) => ({ kind: 'unavailable' as const, reason: error.message }));
      if (outcome.kind !== 'unavailable') break;
      if (failures === 0) log('spool_waiting', { ...cellField, reason: outcome.reason });
      await delay(backoffMs(failures, RETRY, Math.random()), null, { signal }).catch(() => {});
    }
    const { stored: events, duplicates, known, webhookDeleted: webhook_deleted, refused } = counts;
    const fields = { events, duplicates, known, webhook_deleted, refused };
    if (Object.values(fields).some((count) => count > 0))
      log('spool_drained', { ...cellField, ...fields, took_ms: Math.round(performance.now() - startedMs) });
  }
}
