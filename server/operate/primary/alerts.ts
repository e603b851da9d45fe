/** The primary's side of alerts: evaluates the conditions every few seconds, on one machine at a time, and sends their requests. */
import { hostname } from 'node:os';
import { basename } from 'node:path';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { every } from '../../base/time/every.ts';
import { describeAlert } from '../../manage/conditions/describe.ts';
import { type Evaluated, evaluate } from '../../manage/conditions/evaluate.ts';
import { deliver } from '../../manage/conditions/post.ts';
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

export type Alerts = ReturnType<typeof createAlerts>;

/** Evaluates all conditions unless another machine does, sends the requests that are due, and counts both for the metrics. */
export function createAlerts({ database, log, settings, cells, spool, disks, startedMs }: AlertParts) {
  let active = new Map<string, number>();
  const requests = { sent: 0, failed: 0, given_up: 0 };
  const spoolAlert = spool.folder === null ? null : new SpoolAlert(settings().DATA_DIR);
  /** What fails now, so that it is logged once. */
  const failing = new Set<'evaluate' | 'deliver'>();

  function failed(work: 'evaluate' | 'deliver', error: unknown): void {
    if (!failing.has(work)) log('alerts_failed', { reason: (error as Error).message });
    failing.add(work);
  }

  function notSaved(error: Error): null {
    log('alerts_failed', { reason: error.message });
    return null;
  }

  async function ownSpool(): Promise<MachineSpool | null> {
    if (spool.folder === null) return null;
    const { events, oldestMs } = await spool.contents();
    return { id: basename(spool.folder), name: hostname(), events, oldestMs };
  }

  function report({ began, ended }: Pick<Evaluated, 'began' | 'ended'>): void {
    for (const [event, alerts] of [
      ['alert_began', began],
      ['alert_ended', ended],
    ] as const)
      for (const alert of alerts) {
        const { id, condition, subject, text, value, unit } = describeAlert(alert, settings().PUBLIC_URL);
        log(event, { alert: id, condition, subject, text, value, unit });
      }
  }

  /** The spool is the only condition that can be judged without the database. */
  function beginWithoutDatabase(spool: MachineSpool, nowMs: number): void {
    try {
      const alert = spoolAlert!.begin(spool, settings().PUBLIC_URL, nowMs);
      if (alert !== null) report({ began: [alert], ended: [] });
    } catch (error) {
      notSaved(error as Error);
    }
  }

  async function evaluateAll(nowMs: number): Promise<void> {
    const troubled = cells.all().filter(({ trouble }) => trouble !== null);
    const spool = await ownSpool();
    try {
      const carried = spoolAlert?.carried ?? null;
      const machine = { startedMs, spool, cells: troubled, disks: disks.states };
      const evaluated = await evaluate(database, settings(), machine, nowMs, carried);
      if (evaluated !== null) {
        report(evaluated);
        if (spoolAlert?.carried === carried) spoolAlert?.recorded(evaluated.ownSpool);
      }
      active = new Map((await countActiveAlerts(database)).map(({ condition, count }) => [condition, count]));
      failing.delete('evaluate');
    } catch (error) {
      // Other log lines report that the database is away, so one line is enough.
      failed('evaluate', error);
      if (spool !== null) beginWithoutDatabase(spool, nowMs);
    }
  }

  /** Sends the requests that are due. Never rejects: what is not sent is sent later. */
  async function sendDue(signal: AbortSignal): Promise<void> {
    const { ALERT_URL, ...others } = settings();
    if (ALERT_URL === undefined) return;
    const onAttempt = (outcome: 'sent' | 'failed' | 'given_up') => {
      requests[outcome]++;
    };
    const target = { ...others, ALERT_URL };
    try {
      await deliver(target, { database, log, onAttempt }, signal);
      failing.delete('deliver');
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) return failed('deliver', error);
      // The database is away: evaluateAll reports it.
      const alert = spoolAlert?.carried?.alert.id;
      const posted = (await spoolAlert?.send(target, Date.now(), signal).catch(notSaved)) ?? null;
      if (posted === null) return;
      const type = 'alert.began';
      onAttempt(posted.kind);
      if (posted.kind === 'sent') log('alert_sent', { alert, type, status: posted.status });
      else log('alert_send_failed', { alert, type, reason: posted.error, fix: posted.fix });
    }
  }

  return {
    evaluate: evaluateAll,
    deliver: sendDue,
    families(): MetricsSnapshot {
      const values = reportedKinds.map((condition) => ({ labels: { condition }, value: active.get(condition) ?? 0 }));
      const sent = Object.entries(requests).map(([outcome, value]) => ({ labels: { outcome }, value }));
      return [metricFamily('weir_alerts_active', values, 'max'), metricFamily('weir_alert_requests_total', sent)];
    },
    /** Evaluates and sends until the returned function is called. That function waits for running work; a request in progress is ended. */
    run(): () => Promise<void> {
      const stopping = new AbortController();
      const stopSending = every(DELIVER_EVERY_MS, () => sendDue(stopping.signal));
      const stopEvaluating = every(EVALUATE_EVERY_MS, () => evaluateAll(Date.now()));
      return async () => {
        stopping.abort();
        await Promise.all([stopSending(), stopEvaluating()]);
      };
    },
  };
}
