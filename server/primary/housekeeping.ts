/** What the primary does once a minute (partitions for the days ahead, last leases that ended) and once an hour (what retention removes, the audit head in the log). */
import { recordTallies } from '../auth/failed-sign-ins.ts';
import { SESSION_IDLE_SECONDS } from '../auth/people.ts';
import { type Horizon, makePartitions, readHorizon } from '../db/partitions.ts';
import type { Database } from '../db/pool.ts';
import { endLastLeases } from '../db/queries/end-last-leases.ts';
import { deleteExpiredAnswers } from '../db/queries/idempotency.ts';
import { readAuditHead } from '../db/queries/read-audit.ts';
import { deleteOldRejections } from '../db/queries/rejections.ts';
import { deleteEndedSessions } from '../db/queries/sessions.ts';
import { deleteOldFailures } from '../db/queries/sign-in-failures.ts';
import { deleteExpiredKeys, dropOldPartitions, removeExpiredEvents } from '../db/retention.ts';
import type { Settings } from '../settings/read.ts';
import type { Log } from '../telemetry/log.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Makes the partitions that are missing; the span that has them afterwards. */
export async function extendPartitions(database: Database, log: Log): Promise<Horizon> {
  const made = await makePartitions(database, Date.now());
  if (made.length > 0) log('partitions_made', { partitions: made.length, newest: made.at(-1) });
  return (await readHorizon(database))!;
}

/**
 * Logs the head of the audit log when it is not `said` any more, so that the log, which is kept elsewhere, vouches for all
 * entries up to it. Returns the hash to pass in the next time.
 */
export async function anchorAudit(database: Database, log: Log, said: string | null): Promise<string | null> {
  const head = await readAuditHead(database);
  if (head === undefined || head.hash === said) return said;
  log('audit_head', { number: head.number, hash: head.hash });
  return head.hash;
}

/**
 * Keeps house until the returned function is called; that one waits for what is under way.
 * @param settings those of now.
 * @param onHorizon called with the span that has partitions, every minute.
 * @param onMaintained called when the hourly work has succeeded.
 * @param onLastLeases called with the agent of each delivery whose last lease ended.
 * @param onUnhandled called with the number of deliveries that were removed before an agent settled them.
 */
export function keepHouse(
  database: Database,
  settings: () => Settings,
  log: Log,
  onHorizon: (horizon: Horizon) => void,
  onUnhandled: (deliveries: number) => void,
  onMaintained: () => void,
  onLastLeases: (agentIds: string[]) => void,
): () => Promise<void> {
  let watch: Promise<void> = Promise.resolve();
  let round: Promise<void> = Promise.resolve();
  let anchor: string | null = null;
  let stopping = false;
  const unhandled = (deliveries: number) => {
    if (deliveries === 0) return;
    log('deliveries_unhandled', { deliveries });
    onUnhandled(deliveries);
  };
  const look = async () => {
    try {
      onHorizon(await extendPartitions(database, log));
    } catch (error) {
      log('partitions_failed', { reason: (error as Error).message });
    }
    try {
      const deliveries = await endLastLeases(database, settings().DELIVERY_MAX_ATTEMPTS, onLastLeases);
      if (deliveries > 0) log('last_leases_ended', { deliveries });
    } catch (error) {
      log('housekeeping_failed', { reason: (error as Error).message });
    }
  };
  const work = async () => {
    try {
      const dropped = await dropOldPartitions(database, settings().RETENTION_DAYS, Date.now());
      if (dropped.partitions.length > 0) log('partitions_dropped', { partitions: dropped.partitions });
      unhandled(dropped.unhandled);
      const expired = await removeExpiredEvents(database, settings().RETENTION_DAYS, Date.now(), () => stopping);
      if (expired.events > 0) log('events_expired', { events: expired.events, deliveries: expired.deliveries });
      unhandled(expired.unhandled);
      const keys = await deleteExpiredKeys(database);
      if (keys > 0) log('dedupe_keys_expired', { keys });
      const rejections = await deleteOldRejections(database, settings().RETENTION_DAYS);
      if (rejections > 0) log('rejections_expired', { rejections });
      anchor = await anchorAudit(database, log, anchor);
      const sessions = await deleteEndedSessions(database, SESSION_IDLE_SECONDS);
      if (sessions > 0) log('sessions_expired', { sessions });
      await deleteOldFailures(database);
      await recordTallies(database);
      await deleteExpiredAnswers(database);
      onMaintained();
    } catch (error) {
      log('housekeeping_failed', { reason: (error as Error).message });
    }
  };
  const start = () => {
    round = work();
  };
  // Soon after the start too: a machine that is switched off every night would never get to it.
  const first = setTimeout(start, MINUTE_MS);
  const hourly = setInterval(start, HOUR_MS);
  // Apart from the hourly round, which may take long.
  const everyMinute = setInterval(() => {
    watch = look();
  }, MINUTE_MS);
  return async () => {
    clearInterval(everyMinute);
    clearTimeout(first);
    clearInterval(hourly);
    stopping = true;
    await Promise.all([watch, round]);
  };
}
