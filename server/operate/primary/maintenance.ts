/** Maintenance by the primary: each minute partitions, last expired leases and temporary agents; each hour retention, and the audit head. */
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import type { LogEvent } from '../../base/telemetry/log-events.ts';
import { HOUR_MS, MINUTE_MS } from '../../base/time/durations.ts';
import { every } from '../../base/time/every.ts';
import { USER_SESSION_IDLE_SECONDS } from '../../manage/auth/people.ts';
import { recordTallies } from '../../manage/auth/throttle.ts';
import { TEMPORARY_AGENT_SECONDS } from '../../model/agents.ts';
import { advisoryLocks, unlessElsewhere } from '../../store/advisory-locks.ts';
import { record, systemActor } from '../../store/audit/record.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findAgent, revokeAgent } from '../../store/queries/agents/agents.ts';
import { countFailed, deleteOldAgentHistory } from '../../store/queries/agents/history.ts';
import { lockExpiredAgent, removeRevokedAgent } from '../../store/queries/agents/temporary.ts';
import { deleteOldAlerts } from '../../store/queries/alerts/alerts.ts';
import { countExpiring } from '../../store/queries/alerts/expiring.ts';
import { deleteOldIssues } from '../../store/queries/alerts/issues.ts';
import { deleteOldActions } from '../../store/queries/deliveries/actions.ts';
import { endLastLeases } from '../../store/queries/deliveries/deliveries.ts';
import { deleteOldRejections } from '../../store/queries/rejections/ring.ts';
import { deleteOldJobs } from '../../store/queries/replays/jobs.ts';
import { readAuditHead } from '../../store/queries/users/audit.ts';
import { deleteExpiredAnswers } from '../../store/queries/users/idempotency.ts';
import { deleteExpiredClients } from '../../store/queries/users/oauth.ts';
import { deleteEndedSessions } from '../../store/queries/users/sessions.ts';
import { deleteOldFailures } from '../../store/queries/users/sign-in-failures.ts';
import { deleteOldHistory } from '../../store/queries/webhooks/history.ts';
import { deleteOldLatency } from '../../store/queries/webhooks/latency.ts';
import { subtractRemovedUsage } from '../../store/queries/webhooks/usage.ts';
import { dropOldPartitions } from '../../store/retention/drop-partitions.ts';
import { createPartitions, type Horizon, readHorizon, tendDays } from '../../store/retention/partitions.ts';
import { deleteExpiredKeys, removeExpiredEvents } from '../../store/retention/retention.ts';
import { archiveTo } from '../backup/write.ts';

/** Creates missing partitions. Returns the time span that has partitions. */
export async function extendPartitions(database: Database, log: Log): Promise<Horizon> {
  const made = await createPartitions(database, Date.now());
  if (made.length > 0) log('partitions_created', { partitions: made.length, newest: made.at(-1) });
  return (await readHorizon(database))!;
}

/**
 * Revokes temporary agents, which `weir listen` creates, that were not seen for TEMPORARY_AGENT_SECONDS, each with an audit entry. Returns how
 * many.
 */
export async function expireTemporaryAgents(database: Database, nowMs: number): Promise<number> {
  const beforeMs = nowMs - TEMPORARY_AGENT_SECONDS * 1000;
  for (let expired = 0; ; expired++) {
    const found = await database.transaction(async (query) => {
      const id = await lockExpiredAgent(query, beforeMs);
      if (id === undefined) return false;
      const before = (await findAgent(query, id))!;
      await revokeAgent(query, id);
      await record(query, systemActor, {
        action: 'agent.expire',
        target: { kind: 'agent', id, name: before.name },
        before,
      });
      return true;
    });
    if (!found) return expired;
  }
}

/** Deletes revoked temporary agents and all their deliveries, batch by batch, until none is left or `stopped` returns true. */
export async function removeTemporaryAgents(database: Database, nowMs: number, stopped: () => boolean): Promise<void> {
  while ((await removeRevokedAgent(database, nowMs)) && !stopped());
}

/**
 * Logs the head of the audit log when it differs from `logged`. The process log is kept elsewhere, so it proves all entries up to that
 * head. Returns the hash to pass to the next call.
 */
export async function anchorAudit(database: Database, log: Log, logged: string | null): Promise<string | null> {
  const head = await readAuditHead(database);
  if (head === undefined || head.hash === logged) return logged;
  log('audit_head', { number: head.number, hash: head.hash });
  return head.hash;
}

interface MaintenanceParts {
  database: Database;
  cells: Pick<Cells, 'all'>;
  log: Log;
  settings: () => Settings;
  /** Called every minute with the time span that has partitions. */
  onHorizon: (horizon: Horizon) => void;
  /** Called with the agent of each delivery whose last lease expired. */
  onLastLeases: (agentIds: string[]) => void;
  /** Called with the number of deliveries that retention removed before an agent settled them. */
  onUnhandled: (deliveries: number) => void;
  /** Called after each successful hourly round. */
  onMaintained: () => void;
}

/** Runs maintenance until the returned function is called. That function waits for running work. */
export function runMaintenance(parts: MaintenanceParts): () => Promise<void> {
  const { database, cells, log, settings, onHorizon, onLastLeases, onUnhandled, onMaintained } = parts;
  let anchor: string | null = null;
  /** By cell, the partition that could not be dropped in the last run. */
  const busyBefore = new Map<number, string | null>();
  let stopping = false;
  const isStopping = () => stopping;
  const failed = (error: Error) => log('maintenance_failed', { reason: error.message });
  /** Logs what was done, if anything. */
  const logCount = (event: LogEvent, counts: Record<string, number>) => {
    if (Object.values(counts)[0]! > 0) log(event, counts);
  };
  const unhandled = (deliveries: number) => {
    logCount('deliveries_unhandled', { deliveries });
    if (deliveries > 0) onUnhandled(deliveries);
  };
  const runMinuteRound = async () => {
    for (const cell of cells.all())
      try {
        const horizon = await extendPartitions(cell.tables, log);
        if (cell.number === 0) onHorizon(horizon);
      } catch (error) {
        log('partitions_failed', { reason: (error as Error).message });
      }
    try {
      const ofAgents: string[] = [];
      const onEnded = (agentIds: string[]) => {
        onLastLeases(agentIds);
        ofAgents.push(...agentIds);
      };
      const deliveries = await endLastLeases(database, settings().DELIVERY_MAX_ATTEMPTS, onEnded, isStopping);
      if (deliveries > 0) await countFailed(database, ofAgents, Date.now());
      logCount('last_leases_expired', { deliveries });
      logCount('temporary_agents_expired', { agents: await expireTemporaryAgents(database, Date.now()) });
      await removeTemporaryAgents(database, Date.now(), isStopping);
    } catch (error) {
      failed(error as Error);
    }
  };
  const runRetention = async ({ number, database: at, tables }: Cell) => {
    const { RETENTION_DAYS: retentionDays, KEEP_UNDELIVERED_DAYS: keepUndeliveredDays, ARCHIVE_DIR } = settings();
    const archive = ARCHIVE_DIR === undefined ? null : archiveTo(ARCHIVE_DIR, isStopping);
    const options = { keepUndeliveredDays, stopping: isStopping, tables };
    const dropped = await dropOldPartitions(at, retentionDays, Date.now(), { ...options, archive });
    if (dropped.partitions.length > 0) log('partitions_dropped', { partitions: dropped.partitions });
    if (dropped.busy !== null && dropped.busy !== busyBefore.get(number))
      log('partition_busy', { partition: dropped.busy });
    busyBefore.set(number, dropped.busy);
    for (const one of dropped.unarchived) log('archive_failed', one);
    if (dropped.keptDays.length > 0) log('days_kept', { days: dropped.keptDays });
    unhandled(dropped.unhandled);
    const expired = await removeExpiredEvents(at, retentionDays, Date.now(), options);
    logCount('events_expired', { events: expired.events, deliveries: expired.deliveries });
    unhandled(expired.unhandled);
    logCount('dedupe_keys_expired', { keys: await deleteExpiredKeys(at, isStopping) });
  };
  const upkeep = async () => {
    const { RETENTION_DAYS: retentionDays, KEEP_UNDELIVERED_DAYS: keepUndeliveredDays } = settings();
    for (const cell of cells.all())
      await runRetention(cell).catch((error: Error) => {
        if (cell.number === 0) throw error;
        failed(error);
      });
    for (const { database: at, tables } of cells.all())
      try {
        // Cells on Citus are left out.
        const indexes = tables === at ? await tendDays(at, Date.now(), isStopping) : [];
        if (indexes.length > 0) log('days_indexed', { indexes });
      } catch (error) {
        failed(error as Error);
      }
    const deliveries = await countExpiring(database, { retentionDays, keepUndeliveredDays }, Date.now());
    logCount('deliveries_expiring', { deliveries });
    logCount('rejections_expired', { rejections: await deleteOldRejections(database, retentionDays) });
    await deleteOldRejections(database, retentionDays, 'request_samples');
    logCount('sessions_expired', { sessions: await deleteEndedSessions(database, USER_SESSION_IDLE_SECONDS) });
    await subtractRemovedUsage(database, { retentionDays, nowMs: Date.now() }, isStopping);
    await deleteOldHistory(database, isStopping);
    await deleteOldAgentHistory(database);
    await deleteOldLatency(database, isStopping);
    await deleteOldFailures(database);
    await recordTallies(database);
    await deleteExpiredAnswers(database);
    await deleteExpiredClients(database);
    await deleteOldActions(database);
    await deleteOldAlerts(database, retentionDays);
    await deleteOldIssues(database.query);
    await deleteOldJobs(database);
  };
  const runHourRound = async () => {
    try {
      await unlessElsewhere(database, advisoryLocks.maintenance, upkeep);
      // Every machine has a log of its own.
      anchor = await anchorAudit(database, log, anchor);
      // Also report a round that another machine does. If that round does not end, the metric of that machine shows it.
      onMaintained();
    } catch (error) {
      failed(error as Error);
    }
  };
  const stops = [
    every(MINUTE_MS, runMinuteRound),
    // The first run follows soon after the start: a machine that is switched off every night might never reach the hourly run.
    every(HOUR_MS, runHourRound, MINUTE_MS),
  ];
  return async () => {
    stopping = true;
    await Promise.all(stops.map((stop) => stop()));
  };
}
