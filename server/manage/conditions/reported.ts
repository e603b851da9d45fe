/** Reads the conditions that are reported and hold now, from the same sources as those of the overview. */

import type { Settings } from '../../base/settings/read.ts';
import { DEAD_NEW_MINUTES, END_RATIO, type ReportedKind } from '../../model/conditions.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Query } from '../../store/connect/pool.ts';
import { readWaiting } from '../../store/queries/agents/activity.ts';
import {
  readActiveAgents,
  readNewDeadLetters,
  readRefusedRequests,
} from '../../store/queries/alerts/condition-signs.ts';
import { readOverdueWebhooks } from '../../store/queries/alerts/silent-webhooks.ts';

export type AlertSettings = Pick<Settings, 'ALERT_PENDING_SECONDS' | 'ALERT_REJECTIONS_PER_MINUTE'>;

/** A condition that holds, at least enough to keep an alert active. */
export interface ReportedCondition {
  condition: ReportedKind;
  subject: { id: string; name: string };
  /** Unix milliseconds. */
  sinceMs: number;
  value: number;
  /** Null: any value is over it. */
  threshold: number | null;
  /** False for a value between the thresholds of the end and of the beginning: it keeps an alert active, and begins none. */
  begins: boolean;
}

/** The spool of this machine. */
export interface MachineSpool {
  id: string;
  name: string;
  events: number;
  /** Unix milliseconds; null: it is empty. */
  oldestMs: number | null;
}

/** The machine that evaluates. */
export interface Machine {
  /** When its primary started, Unix milliseconds. */
  startedMs: number;
  /** Null when the machine has no spool. */
  spool: MachineSpool | null;
  /** Those that are in trouble. */
  cells: readonly Pick<Cell, 'number' | 'name' | 'troubleSinceMs'>[];
}

/**
 * After a start no webhook is reported as silent before its senders had the time that it expects, at most this long: Weir may have been
 * down, and a Weir that is restarted every day must still report a webhook that expects an event a day.
 */
const START_GRACE_MS_MAX = 3_600_000;
const DEAD_NEW_MS = DEAD_NEW_MINUTES * 60_000;

const AGENTS_MAX = 10_000;
const WEBHOOKS_MAX = 1_000;

/** @param nowMs Unix milliseconds. */
export async function readReported(
  query: Query,
  settings: AlertSettings,
  { startedMs, spool, cells }: Machine,
  nowMs: number,
): Promise<ReportedCondition[]> {
  const database = { query };
  const ofAgents = await conditionsOfAgents(database, settings.ALERT_PENDING_SECONDS, nowMs);
  const refused = await readRefusedRequests(database, nowMs, WEBHOOKS_MAX);
  const overdue = await readOverdueWebhooks(database, nowMs, WEBHOOKS_MAX);
  const perMinute = settings.ALERT_REJECTIONS_PER_MINUTE;
  return [
    ...ofAgents,
    ...refused
      .filter(({ minute_max }) => minute_max > perMinute * END_RATIO)
      .map(
        (webhook): ReportedCondition => ({
          condition: 'rejections',
          subject: { id: webhook.webhook_id, name: webhook.name },
          sinceMs: Date.parse(webhook.minute_at!),
          value: webhook.minute_max,
          threshold: perMinute,
          begins: webhook.minute_max > perMinute,
        }),
      ),
    ...overdue.map(
      (webhook): ReportedCondition => ({
        condition: 'silent',
        subject: { id: webhook.webhook_id, name: webhook.name },
        sinceMs: Date.parse(webhook.silent_since),
        value: Math.floor((nowMs - Date.parse(webhook.silent_since)) / 1000),
        threshold: webhook.expect_every_seconds,
        begins: nowMs - startedMs >= Math.min(webhook.expect_every_seconds * 1000, START_GRACE_MS_MAX),
      }),
    ),
    ...(spool === null || spool.events === 0 ? [] : [spoolCondition(spool, nowMs)]),
    ...cells.map(
      ({ number, name, troubleSinceMs }): ReportedCondition => ({
        condition: 'cell',
        subject: { id: String(number), name: `${number} (${name})` },
        sinceMs: troubleSinceMs,
        value: Math.floor((nowMs - troubleSinceMs) / 1000),
        threshold: null,
        begins: true,
      }),
    ),
  ];
}

async function conditionsOfAgents(
  database: { query: Query },
  pendingSeconds: number,
  nowMs: number,
): Promise<ReportedCondition[]> {
  const agents = await readActiveAgents(database, AGENTS_MAX);
  const names = new Map(agents.map(({ id, name }) => [id, name]));
  const held: ReportedCondition[] = [];
  for (const { agent_id: id, since } of await readWaiting(database, [...names.keys()])) {
    const sinceMs = Date.parse(since);
    const value = Math.floor((nowMs - sinceMs) / 1000);
    if (value <= pendingSeconds * END_RATIO) continue;
    const begins = value > pendingSeconds;
    const subject = { id, name: names.get(id)! };
    held.push({ condition: 'pending', subject, sinceMs, value, threshold: pendingSeconds, begins });
  }
  for (const { agent_id: id, count, first_at } of await readNewDeadLetters(database, nowMs - DEAD_NEW_MS)) {
    const name = names.get(id);
    if (name === undefined) continue;
    const sinceMs = Date.parse(first_at);
    held.push({
      condition: 'dead_letters',
      subject: { id, name },
      sinceMs,
      value: count,
      threshold: null,
      begins: true,
    });
  }
  return held;
}

function spoolCondition({ id, name, events, oldestMs }: MachineSpool, nowMs: number): ReportedCondition {
  return {
    condition: 'spool',
    subject: { id, name },
    sinceMs: oldestMs ?? nowMs,
    value: events,
    threshold: null,
    begins: true,
  };
}
