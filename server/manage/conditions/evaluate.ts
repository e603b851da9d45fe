/** Decides which alerts begin and which end. Their state is in the database, so each begins and ends once, also over restarts. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Settings } from '../../base/settings/read.ts';
import { conditionOf, type ReportedKind, reportOf } from '../../model/conditions.ts';
import { advisoryLocks, tryShortLock } from '../../store/advisory-locks.ts';
import { PartialReads } from '../../store/cells/cells-database.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import { isoTime, uuidText, uuidv7 } from '../../store/ids.ts';
import {
  type ActiveAlert,
  type AlertProgress,
  type AlertRow,
  adoptAlert,
  type CarriedAlert,
  insertAlert,
  insertRequest,
  readActiveAlerts,
  readUnreported,
  updateAlerts,
} from '../../store/queries/alerts/alerts.ts';
import { alertBody, DISK_HERE } from './describe.ts';
import { leftOutOf } from './issues.ts';
import { type AlertSettings, type Machine, type MachineSpool, type Reported, readReported } from './reported.ts';

/** A machine that has not reported for this long is gone. */
const MACHINE_GONE_MS = 86_400_000;
/** Limit on the alerts that begin in one evaluation. The next evaluation begins further ones. */
const BEGUN_MAX = 200;
/** Conditions that are read from every cell. While a cell is away its rows are missing, so alerts about these conditions do not end. */
const OVER_CELLS = ['pending', 'dead_letters'] as const;
/** Longest pause within an evaluation: after it, another machine may evaluate. */
const PAUSE_SECONDS_MAX = 60;

export interface Evaluated {
  began: AlertRow[];
  ended: AlertRow[];
  /** An alert about the spool of this machine is active. */
  ownSpool: boolean;
}

/**
 * Compares the conditions that hold with the active alerts, in one transaction and on one machine at a time.
 * @param machine this machine. Other machines evaluate the alerts of their spools and disks.
 * @param nowMs Unix milliseconds.
 * @param carried the alert that began while the database was away; it is stored first.
 * @returns null if another machine evaluates.
 */
export function evaluate(
  database: Database,
  settings: AlertSettings & Pick<Settings, 'ALERT_URL' | 'PUBLIC_URL'>,
  machine: Machine,
  nowMs: number,
  carried: CarriedAlert | null = null,
): Promise<Evaluated | null> {
  const reads = new PartialReads(database);
  return reads.transaction(async (query) => {
    if (!(await tryShortLock(query, advisoryLocks.alerts, PAUSE_SECONDS_MAX))) return null;
    if (carried !== null) await adoptAlert(query, carried);
    const { spool } = machine;
    const { held, cut } = await readReported(query, settings, machine, nowMs);
    const missing = reads.cellsAway === undefined ? [] : OVER_CELLS;
    const active = await readActiveAlerts(query);
    const isLeftOut = await leftOutOf(cut, active, ({ condition }) => condition, query);
    const mayHold = (alert: ActiveAlert) => isLeftOut(alert) || missing.some((one) => one === alert.condition);
    const ended = await updateAlerts(query, progressOf(active, held, mayHold, spool, nowMs));
    const began = begin(active, held, nowMs);
    for (const alert of began) await insertAlert(query, alert);
    if (settings.ALERT_URL !== undefined) await createRequests(query, settings.PUBLIC_URL, nowMs);
    const current = [...active, ...began].filter(({ id }) => !ended.some((alert) => alert.id === id));
    const ownSpool = current.some(({ condition, subject_id }) => condition === 'spool' && subject_id === spool?.id);
    return { began, ended, ownSpool };
  });
}

/** Call it in the transaction that began or ended the alerts. Alerts that began before ALERT_URL was set are reported too. */
async function createRequests(query: Query, publicUrl: string, nowMs: number): Promise<void> {
  for (const alert of await readUnreported(query)) {
    const type = alert.ended_at === null ? 'alert.began' : 'alert.ended';
    const body = alertBody(type, alert, publicUrl, nowMs);
    await insertRequest(query, { id: randomUUID(), alertId: alert.id, type, body });
  }
}

/** @param mayHold whether the condition of an alert may hold though it was not read */
function progressOf(
  active: readonly ActiveAlert[],
  held: readonly Reported[],
  mayHold: (alert: ActiveAlert) => boolean,
  spool: MachineSpool | null,
  nowMs: number,
): AlertProgress[] {
  const now = isoTime(nowMs);
  const holding = new Map(held.map((one) => [keyOf(one.kind, one.subject.id), one]));
  const progress: AlertProgress[] = [];
  for (const alert of active) {
    const agentId = conditionOf(alert.condition).subject === 'agent' ? alert.subject_id : null;
    const condition = holding.get(keyOf(alert.condition, alert.subject_id));
    if (condition !== undefined) {
      progress.push({ id: alert.id, agentId, value: condition.value, checkedAt: now, calmSince: null, endedAt: null });
      continue;
    }
    if (mayHold(alert)) continue;
    if (isElsewhere(alert, spool) && nowMs - Date.parse(alert.checked_at) < MACHINE_GONE_MS) continue;
    const { id, value, checked_at: checkedAt } = alert;
    const calmSince = alert.calm_since ?? now;
    const isOver = nowMs - Date.parse(calmSince) >= calmMsOf(alert);
    progress.push({ id, agentId, value, checkedAt, calmSince, endedAt: isOver ? now : null });
  }
  return progress;
}

/** Whether only another machine can find the condition of this alert. */
function isElsewhere({ condition, subject_id: id }: AlertRow, spool: MachineSpool | null): boolean {
  if (condition === 'disk') return !id.startsWith(DISK_HERE);
  return condition === 'spool' && id !== spool?.id;
}

/**
 * How long a condition must be absent before its alert ends. Without this time, a sender that is always a little late would begin and end an
 * alert with each event. For `silent` the expected interval is enough, if it is shorter.
 */
function calmMsOf({ condition, threshold }: AlertRow): number {
  const { calmMs } = reportOf(condition);
  return condition === 'silent' ? Math.min(calmMs, (threshold ?? 0) * 1000) : calmMs;
}

function begin(active: readonly ActiveAlert[], held: readonly Reported[], nowMs: number): AlertRow[] {
  const known = new Set(active.map(({ condition, subject_id }) => keyOf(condition, subject_id)));
  const fresh = held.filter((one) => one.begins && !known.has(keyOf(one.kind, one.subject.id)));
  return fresh.slice(0, BEGUN_MAX).map((one) => newAlert(one, nowMs));
}

/** The alert about a condition, which begins now. */
export function newAlert(
  { kind, subject, since, value, threshold }: Omit<Reported, 'begins'>,
  nowMs: number,
): AlertRow {
  return {
    id: uuidText(uuidv7(nowMs, randomBytes(16))),
    condition: kind,
    subject_id: subject.id,
    subject_name: subject.name,
    since,
    began_at: isoTime(nowMs),
    ended_at: null,
    value,
    threshold,
    undelivered: null,
  };
}

function keyOf(condition: ReportedKind, subjectId: string): string {
  return `${condition} ${subjectId}`;
}
