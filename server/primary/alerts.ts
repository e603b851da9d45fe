/** The primary's side of alerts: evaluates the conditions every few seconds, on one machine at a time. */
import { hostname } from 'node:os';
import { basename } from 'node:path';
import { describeAlert } from '../alerts/describe.ts';
import { type Evaluated, evaluate } from '../alerts/evaluate.ts';
import type { MachineSpool } from '../alerts/signs.ts';
import type { Database } from '../db/pool.ts';
import { countActiveAlerts } from '../db/queries/alerts.ts';
import { conditionNames } from '../resources/alerts.ts';
import type { Settings } from '../settings/read.ts';
import type { Log } from '../telemetry/log.ts';
import { metricFamily } from '../telemetry/metric-table.ts';
import type { MetricsSnapshot } from './messages.ts';
import type { PrimarySpool } from './spool.ts';

/** Time between two evaluations. */
const EVALUATE_EVERY_MS = 15_000;

interface AlertParts {
  database: Database;
  log: Log;
  /** Current settings. */
  settings: () => Settings;
  spool: Pick<PrimarySpool, 'folder' | 'contents'>;
}

/** An evaluation of all conditions unless another machine runs one, and the metrics. */
export class Alerts {
  readonly #parts: AlertParts;
  #active = new Map<string, number>();
  #failing = false;

  constructor(parts: AlertParts) {
    this.#parts = parts;
  }

  /** @param nowMs Unix milliseconds. */
  async evaluate(nowMs: number): Promise<void> {
    const { database, log, settings } = this.#parts;
    try {
      const spool = await this.#spool();
      const evaluated = await evaluate(database, settings(), spool, nowMs);
      if (evaluated !== null) this.#report(evaluated);
      this.#active = new Map((await countActiveAlerts(database)).map(({ condition, count }) => [condition, count]));
      this.#failing = false;
    } catch (error) {
      // The database is away, which other lines report: one line is enough.
      if (!this.#failing) log('alerts_failed', { reason: (error as Error).message });
      this.#failing = true;
    }
  }

  /** Metrics of the primary. */
  families(): MetricsSnapshot {
    const values = conditionNames.map((condition) => ({
      labels: { condition },
      value: this.#active.get(condition) ?? 0,
    }));
    return [metricFamily('weir_alerts_active', values, 'max')];
  }

  #report({ began, ended }: Evaluated): void {
    const { log, settings } = this.#parts;
    for (const [event, alerts] of [
      ['alert_began', began],
      ['alert_ended', ended],
    ] as const)
      for (const alert of alerts) {
        const { id, condition, subject, text, value, unit } = describeAlert(alert, settings().PUBLIC_URL);
        log(event, { alert: id, condition, subject, text, value, unit });
      }
  }

  /** Null: this machine has no spool. */
  async #spool(): Promise<MachineSpool | null> {
    const { folder, contents } = this.#parts.spool;
    if (folder === null) return null;
    const { events, oldestMs } = await contents();
    return { id: basename(folder), name: hostname(), events, oldestMs };
  }
}

/** Evaluates until the returned function is called. That function waits for running work. */
export function runAlerts(alerts: Alerts): () => Promise<void> {
  let round: Promise<void> = Promise.resolve();
  let running = false;
  const timer = setInterval(() => {
    if (running) return;
    running = true;
    round = alerts.evaluate(Date.now()).finally(() => {
      running = false;
    });
  }, EVALUATE_EVERY_MS);
  return async () => {
    clearInterval(timer);
    await round;
  };
}
