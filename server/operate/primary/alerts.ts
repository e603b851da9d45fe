/** The primary's side of alerts: evaluates the conditions every few seconds, on one machine at a time, and sends what they make. */
import { hostname } from 'node:os';
import { basename } from 'node:path';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { every } from '../../base/time/every.ts';
import { deliver } from '../../manage/conditions/deliver.ts';
import { describeAlert } from '../../manage/conditions/describe.ts';
import { type Evaluated, evaluate } from '../../manage/conditions/evaluate.ts';
import type { MachineSpool } from '../../manage/conditions/reported.ts';
import { SpoolAlert } from '../../manage/conditions/spool-alert.ts';
import { reportedKinds } from '../../model/conditions.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import { countActiveAlerts } from '../../store/queries/alerts/alerts.ts';
import type { Disks } from './disks.ts';
import type { MetricsSnapshot } from './messages.ts';
import type { PrimarySpool } from './spool.ts';

const EVALUATE_EVERY_MS = 15_000;
const DELIVER_EVERY_MS = 5_000;

interface AlertParts {
  database: Database;
  log: Log;
  settings: () => Settings;
  cells: Pick<Cells, 'all'>;
  spool: Pick<PrimarySpool, 'folder' | 'contents'>;
  disks: Pick<Disks, 'states'>;
  /** When this primary started, Unix milliseconds. */
  startedMs: number;
}

/** Evaluates all conditions unless another machine does, sends the requests that are due, and counts both for the metrics. */
export class Alerts {
  readonly #parts: AlertParts;
  #active = new Map<string, number>();
  #failing = false;
  #cannotSend = false;
  readonly #requests = { sent: 0, failed: 0, given_up: 0 };

  readonly #spoolAlert: SpoolAlert | null;

  constructor(parts: AlertParts) {
    this.#parts = parts;
    this.#spoolAlert = parts.spool.folder === null ? null : new SpoolAlert(parts.settings().DATA_DIR);
  }

  async evaluate(nowMs: number): Promise<void> {
    const { database, log, settings, startedMs, disks } = this.#parts;
    const cells = this.#parts.cells.all().filter(({ trouble }) => trouble !== null);
    const spool = await this.#spool();
    try {
      const carried = this.#spoolAlert?.carried ?? null;
      const machine = { startedMs, spool, cells, disks: disks.states };
      const evaluated = await evaluate(database, settings(), machine, nowMs, carried);
      if (evaluated !== null) {
        this.#report(evaluated);
        if (this.#spoolAlert?.carried === carried) this.#spoolAlert?.recorded(evaluated.ownSpool);
      }
      this.#active = new Map((await countActiveAlerts(database)).map(({ condition, count }) => [condition, count]));
      this.#failing = false;
    } catch (error) {
      // Other log lines report that the database is away, so one line is enough.
      if (!this.#failing) log('alerts_failed', { reason: (error as Error).message });
      this.#failing = true;
      if (spool !== null) this.#beginWithoutDatabase(spool, nowMs);
    }
  }

  /** Sends the requests that are due. Never rejects: what is not sent is sent later. */
  async deliver(signal: AbortSignal): Promise<void> {
    const { database, log } = this.#parts;
    const { ALERT_URL, ...settings } = this.#parts.settings();
    if (ALERT_URL === undefined) return;
    const onAttempt = (outcome: 'sent' | 'failed' | 'given_up') => {
      this.#requests[outcome]++;
    };
    const target = { ...settings, ALERT_URL };
    try {
      await deliver(target, { database, log, onAttempt }, signal);
      this.#cannotSend = false;
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) {
        if (!this.#cannotSend) log('alerts_failed', { reason: (error as Error).message });
        this.#cannotSend = true;
        return;
      }
      // The database is away: evaluate reports it.
      const alert = this.#spoolAlert?.carried?.alert.id;
      const posted = (await this.#spoolAlert?.send(target, Date.now(), signal).catch(this.#notSaved)) ?? null;
      if (posted === null) return;
      const type = 'alert.began';
      onAttempt(posted.kind);
      if (posted.kind === 'sent') log('alert_sent', { alert, type, status: posted.status });
      else log('alert_send_failed', { alert, type, reason: posted.error, fix: posted.fix });
    }
  }

  families(): MetricsSnapshot {
    const values = reportedKinds.map((condition) => ({
      labels: { condition },
      value: this.#active.get(condition) ?? 0,
    }));
    const requests = Object.entries(this.#requests).map(([outcome, value]) => ({ labels: { outcome }, value }));
    return [metricFamily('weir_alerts_active', values, 'max'), metricFamily('weir_alert_requests_total', requests)];
  }

  /** The spool is the only condition that can be judged without the database. */
  #beginWithoutDatabase(spool: MachineSpool, nowMs: number): void {
    try {
      const alert = this.#spoolAlert!.begin(spool, this.#parts.settings().PUBLIC_URL, nowMs);
      if (alert !== null) this.#report({ began: [alert], ended: [] });
    } catch (error) {
      this.#notSaved(error as Error);
    }
  }

  readonly #notSaved = (error: Error): null => {
    this.#parts.log('alerts_failed', { reason: error.message });
    return null;
  };

  #report({ began, ended }: Pick<Evaluated, 'began' | 'ended'>): void {
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

  async #spool(): Promise<MachineSpool | null> {
    const { folder, contents } = this.#parts.spool;
    if (folder === null) return null;
    const { events, oldestMs } = await contents();
    return { id: basename(folder), name: hostname(), events, oldestMs };
  }
}

/** Evaluates and sends until the returned function is called. That function waits for running work; a request in progress is ended. */
export function runAlerts(alerts: Alerts): () => Promise<void> {
  const stopping = new AbortController();
  const send = every(DELIVER_EVERY_MS, () => alerts.deliver(stopping.signal));
  const evaluate = every(EVALUATE_EVERY_MS, () => alerts.evaluate(Date.now()));
  return async () => {
    stopping.abort();
    await Promise.all([send(), evaluate()]);
  };
}
