/** Reads the conditions that hold now and that alerts report, from the same sources as the list of issues. */
import type { Settings } from '../../base/settings/read.ts';
import { DEAD_NEW_MINUTES, END_RATIO, type ReportedKind } from '../../model/conditions.ts';
import { type DiskState, lowDisks } from '../../model/machines.ts';
import type { Query } from '../../store/connect/pool.ts';
import { isoTime } from '../../store/ids.ts';
import { readWaiting } from '../../store/queries/agents/activity.ts';
import {
  DEAD_READ_MAX,
  readActiveAgents,
  readNewDeadLetters,
  readRefusedRequests,
  WEBHOOKS_MAX,
} from '../../store/queries/alerts/condition-signs.ts';
import { readOverdueWebhooks } from '../../store/queries/alerts/silent-webhooks.ts';
import { cellSubject, diskSubject, type Held, type TroubledCell, webhookOf } from './describe.ts';

export type AlertSettings = Pick<Settings, 'ALERT_PENDING_SECONDS' | 'ALERT_REJECTIONS_PER_MINUTE'>;

/** A condition that holds, at least enough to keep an alert active. */
export type Reported = Required<Omit<Held, 'cause' | 'fix' | 'part' | 'query'>> & {
  kind: ReportedKind;
  /** False for a value between the thresholds of the end and of the beginning: it keeps an alert active, and begins none. */
  begins: boolean;
};

export interface MachineSpool {
  id: string;
  name: string;
  events: number;
  /** Unix milliseconds; null: it is empty. */
  oldestMs: number | null;
}

export interface Machine {
  /** When its primary started, Unix milliseconds. */
  startedMs: number;
  /** Null when the machine has no spool. */
  spool: MachineSpool | null;
  /** Only cells that cannot be used or store nothing. */
  cells: readonly TroubledCell[];
  disks: readonly DiskState[];
}

/**
 * After a start, a webhook is reported as silent only once its expected interval has passed, because Weir may have been down. This limit of
 * the wait exists because a Weir that is restarted every day must still report a webhook that expects an event a day.
 */
const START_GRACE_MS_MAX = 3_600_000;
const DEAD_NEW_MS = DEAD_NEW_MINUTES * 60_000;

/** Reads the conditions. `cut`: kinds of which more conditions may hold than were read. @param nowMs Unix milliseconds */
export async function readReported(
  query: Query,
  { ALERT_PENDING_SECONDS: pendingMax, ALERT_REJECTIONS_PER_MINUTE: rejectionsMax }: AlertSettings,
  { startedMs, spool, cells, disks }: Machine,
  nowMs: number,
): Promise<{ held: Reported[]; cut: ReadonlySet<ReportedKind> }> {
  const database = { query };
  const agents = new Map((await readActiveAgents(database)).map((agent) => [agent.id, agent]));
  const waiting = await readWaiting(database, [...agents.keys()]);
  const dead = await readNewDeadLetters(database, nowMs - DEAD_NEW_MS);
  const refused = await readRefusedRequests(database, nowMs);
  const overdue = await readOverdueWebhooks(database, nowMs);
  const secondsSince = (iso: string) => Math.floor((nowMs - Date.parse(iso)) / 1000);
  const fewest = refused[WEBHOOKS_MAX - 1];
  const cut = new Set<ReportedKind>([
    ...(overdue.length < WEBHOOKS_MAX ? [] : (['silent'] as const)),
    ...(dead.reduce((sum, { count }) => sum + count, 0) < DEAD_READ_MAX ? [] : (['dead_letters'] as const)),
    // Each webhook that is left out has fewer rejections than the last one.
    ...(fewest === undefined || fewest.rejected + fewest.limited + fewest.refused <= rejectionsMax * END_RATIO
      ? []
      : (['rejections'] as const)),
  ]);
  const held = [
    ...waiting.flatMap(({ agent_id, since, paused }) =>
      paused ? [] : overHalf('pending', agents.get(agent_id)!, secondsSince(since), pendingMax, since),
    ),
    ...dead.flatMap(({ agent_id, count, first_at }) => {
      const agent = agents.get(agent_id);
      return agent === undefined ? [] : reportedOf('dead_letters', agent, count, first_at);
    }),
    ...refused.flatMap((one) => overHalf('rejections', webhookOf(one), one.minute_max, rejectionsMax, one.minute_at!)),
    ...overdue.map((one) => ({
      ...reportedOf('silent', webhookOf(one), secondsSince(one.silent_since), one.silent_since),
      threshold: one.expect_every_seconds,
      begins: nowMs - startedMs >= Math.min(one.expect_every_seconds * 1000, START_GRACE_MS_MAX),
    })),
    ...(spool === null || spool.events === 0
      ? []
      : [reportedOf('spool', spool, spool.events, isoTime(spool.oldestMs ?? nowMs))]),
    ...lowDisks(disks).map((disk) => reportedOf('disk', diskSubject(disk), disk.freeBytes, isoTime(nowMs))),
    ...cells.map((cell) => {
      const since = isoTime(cell.troubleSinceMs);
      return reportedOf('cell', cellSubject(cell), secondsSince(since), since);
    }),
  ];
  return { held, cut };
}

/** A condition without a threshold: an alert begins at any value. */
function reportedOf(kind: ReportedKind, { id, name }: Reported['subject'], value: number, since: string): Reported {
  return { kind, subject: { id, name }, value, threshold: null, since, begins: true };
}

/** An alert begins above the threshold, and ends below its END_RATIO. */
function overHalf(
  kind: ReportedKind,
  subject: Reported['subject'],
  value: number,
  threshold: number,
  since: string,
): Reported[] {
  if (value <= threshold * END_RATIO) return [];
  return [{ ...reportedOf(kind, subject, value, since), threshold, begins: value > threshold }];
}
