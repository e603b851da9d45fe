/** Reads the conditions that hold now, as the overview and GET /api/v1/conditions list them. */

import { hostname } from 'node:os';
import { basename } from 'node:path';
import type { Settings } from '../../base/settings/read.ts';
import { MINUTE_MS } from '../../base/time/durations.ts';
import { keptFor } from '../../base/time/kept.ts';
import type { Condition } from '../../model/condition-list.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import { DIED_MINUTES, noDeaths, type ProcessDeath } from '../../model/process-deaths.ts';
import { SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { CommitFailure } from '../../store/commit-probe.ts';
import type { Database } from '../../store/connect/pool.ts';
import { isoTime } from '../../store/ids.ts';
import { readAgentActivity } from '../../store/queries/agents/activity.ts';
import { readNamesOfAgents, readRefusedRequests } from '../../store/queries/alerts/condition-signs.ts';
import { countExpiring, countUnarchived } from '../../store/queries/alerts/expiring.ts';
import { readOverdueWebhooks, readSilentWebhooks } from '../../store/queries/alerts/silent-webhooks.ts';
import { readUndelivered } from '../../store/queries/alerts/undelivered.ts';
import { readFilters, type StoredFilter } from '../../store/queries/events/filter.ts';
import type { History } from '../live/counters.ts';
import { explainCommitFailure } from './commit-failure.ts';
import { described, type Held, webhookOf } from './held.ts';
import { refusalConditions } from './refusals.ts';

/** How long a list read from the history is reused by a process. */
const REFUSED_VALID_MS = 5_000;
const SILENT_VALID_MS = 60_000;
const RETENTION_VALID_MS = 60_000;
const FILTERS_VALID_MS = 60_000;
/** Filters that are checked. weir doctor checks more. */
const FILTERS_MAX = 2_000;

interface ReaderParts {
  settings: Pick<Settings, 'RETENTION_DAYS' | 'KEEP_UNDELIVERED_DAYS' | 'ALERT_PENDING_SECONDS' | 'PUBLIC_URL'>;
  database: Database;
  /** The last minutes of all processes of this machine. */
  history: Pick<History, 'latest' | 'seconds'>;
  /** Why commits fail; null: they succeed. */
  commitFailure: () => Promise<CommitFailure | null>;
  /** Null: this machine has no spool. */
  spoolFolder: string | null;
  cells: Pick<Cells, 'all'>;
}

/**
 * Returns a function that reads the conditions, most lists from a cache. `nowMs`: Unix milliseconds. Rejects with errors of the database.
 */
export function conditionReader(parts: ReaderParts): (nowMs: number) => Promise<Condition[]> {
  const { settings, database, history, commitFailure, spoolFolder } = parts;
  const retention = { retentionDays: settings.RETENTION_DAYS, keepUndeliveredDays: settings.KEEP_UNDELIVERED_DAYS };
  const refused = keptFor(REFUSED_VALID_MS, (nowMs) => readRefusedRequests(database, nowMs));
  const silent = keptFor(SILENT_VALID_MS, (nowMs) => readSilentWebhooks(database, nowMs));
  const filters = keptFor(FILTERS_VALID_MS, () => readFilters(database, null, FILTERS_MAX));
  const expiring = keptFor(RETENTION_VALID_MS, (nowMs) => countExpiring(database, retention, nowMs));
  const unarchived = keptFor(RETENTION_VALID_MS, (nowMs) => countUnarchived(database, retention, nowMs));
  const spoolReader = spoolFolder === null ? null : new SpoolReader(realDisk, spoolFolder);
  const pendingSeconds = settings.ALERT_PENDING_SECONDS;

  return async (nowMs) => {
    const [failure, spool, agents, left, requests, silentWebhooks, overdueWebhooks, stored, leaving, waitingDays] =
      await Promise.all([
        commitFailure(),
        spoolReader?.read().catch(() => null),
        readAgentActivity(database, null),
        readUndelivered(database),
        refused(nowMs),
        silent(nowMs),
        readOverdueWebhooks(database, nowMs),
        filters(nowMs),
        expiring(nowMs),
        unarchived(nowMs),
      ]);
    const secondsSince = (iso: string) => (nowMs - Date.parse(iso)) / 1000;
    const dead = agents.filter((agent) => agent.dead > 0);
    const waiting = agents.flatMap(({ agent_id: id, waiting_since: since }) =>
      since !== null && secondsSince(since) > pendingSeconds ? [{ id, since }] : [],
    );
    const ids = [...dead.map((one) => one.agent_id), ...waiting.map(({ id }) => id)];
    const names = await readNamesOfAgents(database, [...new Set(ids)]);
    const agent = (id: string) => ({ id, name: names.get(id) ?? id });
    const held: Held[] = [
      ...(failure === null ? [] : [databaseCondition(failure)]),
      ...((spool?.events ?? 0) > 0 ? [spoolCondition(basename(spoolFolder!), spool!.events)] : []),
      ...parts.cells.all().flatMap((cell) => (cell.trouble === null ? [] : [cellCondition(cell)])),
      ...liveConditions(history, nowMs),
      ...dead.map((one): Held => ({ kind: 'dead_letters', subject: agent(one.agent_id), value: one.dead })),
      ...waiting.map(
        ({ id, since }): Held => ({
          kind: 'pending',
          subject: agent(id),
          value: secondsSince(since),
          threshold: pendingSeconds,
          since,
        }),
      ),
      ...left.map(({ count, ...agent }): Held => ({ kind: 'undelivered', subject: agent, value: count })),
      ...refusalConditions(requests, nowMs),
      ...filterConditions(stored),
      ...(leaving > 0 ? [{ kind: 'expiring', value: leaving } as const] : []),
      ...(waitingDays > 0 ? [{ kind: 'archive', value: waitingDays } as const] : []),
      ...[...overdueWebhooks, ...silentWebhooks].map(
        (one): Held => ({
          kind: 'silent',
          subject: webhookOf(one),
          value: secondsSince(one.silent_since),
          threshold: one.expect_every_seconds,
          since: one.silent_since,
        }),
      ),
    ];
    return held.map((one) => described(one, settings.PUBLIC_URL));
  };
}

function databaseCondition(failure: CommitFailure): Held {
  const { finding, fix, said } = explainCommitFailure(failure);
  return { kind: 'database', cause: finding, fix: `${sentence(fix)} Postgres said: ${said}` };
}

function spoolCondition(id: string, events: number): Held {
  return { kind: 'spool', subject: { id, name: hostname() }, value: events };
}

function cellCondition({ number, name, away, failure, troubleSinceMs }: Cell): Held {
  const held = {
    kind: 'cell',
    subject: { id: String(number), name: `${number} (${name})` },
    since: isoTime(troubleSinceMs),
  } as const;
  if (failure === null) return { ...held, cause: away! };
  const { finding, fix, said } = explainCommitFailure(failure);
  return { ...held, cause: finding, fix: `${sentence(fix)} Postgres said: ${said}` };
}

function liveConditions({ latest, seconds }: ReaderParts['history'], nowMs: number): Held[] {
  const processes = latest?.processes ?? [];
  const machine = { id: hostname(), name: hostname() };
  // A primary of an older build does not count them.
  const refused = seconds.reduce((sum, second) => sum + (second.connections_refused ?? 0), 0);
  // A primary of an older build does not send them.
  const { newest } = latest?.process_deaths ?? noDeaths;
  const isOff = processes.some((one) => one.rate_limit_store === 'degraded');
  return [
    ...processes
      .filter(({ state }) => state === 'unresponsive')
      .map(({ pid }): Held => ({ kind: 'process', subject: { id: String(pid), name: String(pid) } })),
    ...(refused > 0 ? [{ kind: 'connections', subject: machine, value: refused } as const] : []),
    ...deathCondition(newest.filter(({ at }) => nowMs - Date.parse(at) < DIED_MINUTES * MINUTE_MS)),
    ...(isOff ? [{ kind: 'rate_limits' } as const] : []),
  ];
}

/** @param deaths newest first */
function deathCondition(deaths: readonly ProcessDeath[]): Held[] {
  const [last] = deaths;
  if (last === undefined) return [];
  const name = hostname();
  const { at: since, reason: cause } = last;
  return [{ kind: 'process_died', subject: { id: name, name }, value: deaths.length, since, cause }];
}

function filterConditions(filters: readonly StoredFilter[]): Held[] {
  const byAgent = new Map<string, { name: string; count: number }>();
  for (const { agentId, agentName, filter, suspendedUntil } of filters) {
    if (filterProblem(filter) === null && suspendedUntil === null) continue;
    byAgent.set(agentId, { name: agentName, count: (byAgent.get(agentId)?.count ?? 0) + 1 });
  }
  return [...byAgent].map(([id, { name, count }]) => ({ kind: 'filter', subject: { id, name }, value: count }));
}

/** A fix of doctor as a sentence. */
function sentence(fix: string): string {
  return `${fix[0]!.toUpperCase()}${fix.slice(1)}.`;
}
