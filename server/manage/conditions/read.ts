/** Reads the conditions that hold now, as the overview and GET /api/v1/conditions list them. */

import { hostname } from 'node:os';
import { basename } from 'node:path';
import { MINUTE_MS } from '../../base/durations.ts';
import { keptFor } from '../../base/net/kept.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Condition } from '../../model/condition-list.ts';
import {
  type ConditionKind,
  conditionOf,
  conditionTable,
  LIMITED_SHARE_MIN,
  REJECTIONS_QUIET_MS,
} from '../../model/conditions.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import { SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { CommitFailure } from '../../store/commit-probe.ts';
import { isoTime } from '../../store/ids.ts';
import { keptOfManyWebhooks, nullUntilFirstRead } from '../../store/many-webhooks.ts';
import type { Database } from '../../store/pool.ts';
import { readAgentActivity } from '../../store/queries/agents/activity.ts';
import {
  type RefusedRequests,
  readNamesOfAgents,
  readRefusedRequests,
} from '../../store/queries/alerts/condition-signs.ts';
import { countExpiring, countUnarchived } from '../../store/queries/alerts/expiring.ts';
import {
  readOverdueWebhooks,
  readSilentWebhooks,
  readUsualPauses,
} from '../../store/queries/alerts/silent-webhooks.ts';
import { readUndelivered } from '../../store/queries/alerts/undelivered.ts';
import { readFilters, type StoredFilter } from '../../store/queries/events/filter.ts';
import type { History } from '../live/counters.ts';
import { explainCommitFailure } from './commit-failure.ts';

/** How long a list read from the history is reused by a process. */
const REFUSED_VALID_MS = 5_000;
const SILENT_VALID_MS = 60_000;
/** With many webhooks. A week of rows is read for it. */
const PAUSES_VALID_MS = 3_600_000;
const RETENTION_VALID_MS = 60_000;
const FILTERS_VALID_MS = 60_000;
/** Filters that are checked. weir doctor checks more. */
const FILTERS_MAX = 2_000;

interface ReaderParts {
  settings: Pick<Settings, 'RETENTION_DAYS' | 'KEEP_UNDELIVERED_DAYS' | 'ALERT_PENDING_SECONDS' | 'PUBLIC_URL'>;
  database: Database;
  /** The last minutes of all processes of this machine. */
  history: Pick<History, 'latest'>;
  /** Why commits fail; null: they succeed. */
  commitFailure: () => Promise<CommitFailure | null>;
  /** Null: this machine has no spool. */
  spoolFolder: string | null;
  cells: Pick<Cells, 'all'>;
}

interface ConditionsRead {
  items: Condition[];
  /** False: without webhooks that are silent by their history, as the first read of the usual pauses of many webhooks is under way. */
  complete: boolean;
}

/**
 * Returns a function that reads the conditions, most lists from a cache. `nowMs`: Unix milliseconds. With `waits` it waits until they are
 * complete. Rejects with errors of the database.
 */
export function conditionReader(
  parts: ReaderParts,
): (nowMs: number, options?: { waits: boolean }) => Promise<ConditionsRead> {
  const { settings, database, history, commitFailure, spoolFolder } = parts;
  const retention = { retentionDays: settings.RETENTION_DAYS, keepUndeliveredDays: settings.KEEP_UNDELIVERED_DAYS };
  const refused = keptFor(REFUSED_VALID_MS, (nowMs) => readRefusedRequests(database, nowMs));
  const usual = keptOfManyWebhooks(database, PAUSES_VALID_MS, (nowMs: number) =>
    readUsualPauses(database, nowMs, 2 * PAUSES_VALID_MS),
  );
  const silent = keptFor(SILENT_VALID_MS, async (nowMs) => readSilentWebhooks(database, nowMs, await usual(nowMs)));
  const silentIfRead = nullUntilFirstRead(database, silent);
  const filters = keptFor(FILTERS_VALID_MS, () => readFilters(database, null, FILTERS_MAX));
  const expiring = keptFor(RETENTION_VALID_MS, (nowMs) => countExpiring(database, retention, nowMs));
  const unarchived = keptFor(RETENTION_VALID_MS, (nowMs) => countUnarchived(database, retention, nowMs));
  const spoolReader = spoolFolder === null ? null : new SpoolReader(realDisk, spoolFolder);
  const pendingSeconds = settings.ALERT_PENDING_SECONDS;

  return async (nowMs, { waits } = { waits: false }) => {
    const [failure, spool, agents, left, requests, silentWebhooks, overdueWebhooks, stored, leaving, waitingDays] =
      await Promise.all([
        commitFailure(),
        spoolReader?.read().catch(() => null),
        readAgentActivity(database, null),
        readUndelivered(database),
        refused(nowMs),
        waits ? silent(nowMs) : silentIfRead(nowMs),
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
    const webhook = ({ webhook_id: id, name }: { webhook_id: string; name: string }) => ({ id, name });
    const held: Held[] = [
      ...(failure === null ? [] : [databaseCondition(failure)]),
      ...((spool?.events ?? 0) > 0 ? [spoolCondition(basename(spoolFolder!), spool!.events)] : []),
      ...parts.cells.all().flatMap((cell) => (cell.trouble === null ? [] : [cellCondition(cell)])),
      ...liveConditions(history),
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
      ...requests
        .filter((one) => one.rejected >= conditionTable.rejections.threshold && !isFixed(one, nowMs))
        .map((one): Held => ({ kind: 'rejections', subject: webhook(one), value: one.rejected })),
      ...requests
        .filter(({ accepted, rejected, limited }) => isLimited(limited, accepted + rejected + limited))
        .map((one): Held => ({ kind: 'limited', subject: webhook(one), value: one.limited })),
      ...requests
        .filter((one) => isFailing(one, nowMs))
        .map(
          (one): Held => ({ kind: 'failing', subject: webhook(one), value: one.rejected + one.limited + one.refused }),
        ),
      ...filterConditions(stored),
      ...(leaving > 0 ? [{ kind: 'expiring', value: leaving } as const] : []),
      ...(waitingDays > 0 ? [{ kind: 'archive', value: waitingDays } as const] : []),
      ...[...overdueWebhooks, ...(silentWebhooks ?? [])].map(
        (one): Held => ({
          kind: 'silent',
          subject: webhook(one),
          value: secondsSince(one.silent_since),
          threshold: one.expect_every_seconds,
          since: one.silent_since,
        }),
      ),
    ];
    const items = held.map((one) => described(one, settings.PUBLIC_URL));
    return { items, complete: silentWebhooks !== null };
  };
}

/** A condition that holds. */
interface Held {
  kind: ConditionKind;
  /** Undefined: the installation. */
  subject?: { id: string; name: string };
  value?: number;
  threshold?: number | null;
  since?: string;
  /** Why, and what to do about that cause. */
  cause?: string;
  fix?: string;
}

function described(held: Held, publicUrl: string): Condition {
  const { kind, subject, value, threshold = null, since = null, cause = '' } = held;
  const row = conditionOf(kind);
  return {
    id: row.subject === 'installation' ? kind : `${kind}:${subject!.id}`,
    snoozed: null,
    kind,
    severity: row.severity,
    text: row.text({ name: subject?.name ?? '', value: value ?? 0, threshold, cause }),
    fix: held.fix ?? row.fix,
    url: `${publicUrl}${row.page(subject?.id ?? '')}`,
    webhook_id: row.subject === 'webhook' ? subject!.id : null,
    agent_id: row.subject === 'agent' ? subject!.id : null,
    name: subject?.name ?? null,
    count: row.unit === null || row.unit === 'seconds' ? null : value!,
    expect_every_seconds: kind === 'silent' ? threshold : null,
    since,
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

function liveConditions({ latest }: Pick<History, 'latest'>): Held[] {
  const processes = latest?.processes ?? [];
  const isOff = processes.some((one) => one.rate_limit_store === 'degraded');
  return [
    ...processes
      .filter(({ state }) => state === 'unresponsive')
      .map(({ pid }): Held => ({ kind: 'process', subject: { id: String(pid), name: String(pid) } })),
    ...(isOff ? [{ kind: 'rate_limits' } as const] : []),
  ];
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

/**
 * Whether the rejections of a webhook have ended: the newest was accepted or verifies now, or requests verify since, and none was rejected
 * for REJECTIONS_QUIET_MS and for twice the mean pause between them. A sender that is rejected now and then, beside others that verify,
 * is therefore not fixed.
 */
function isFixed(requests: RefusedRequests, nowMs: number): boolean {
  const { rejected_minutes, newest_is_fixed } = requests;
  const [from, to] = [Date.parse(requests.rejected_from!), Date.parse(requests.rejected_to!)];
  if (newest_is_fixed && Date.parse(requests.newest_at!) >= to) return true;
  const pauseMs = rejected_minutes > 1 ? (to - from) / (rejected_minutes - 1) : 0;
  const quietMs = nowMs - (to + MINUTE_MS);
  const verifies = requests.verified_at !== null && Date.parse(requests.verified_at) > to;
  return verifies && quietMs >= Math.max(REJECTIONS_QUIET_MS, 2 * pauseMs);
}

/** Whether nothing verified in the hour, and no other condition says why. */
function isFailing(requests: RefusedRequests, nowMs: number): boolean {
  const { enabled, rejected, limited, verified_at } = requests;
  if (!enabled || verified_at !== null || isLimited(limited, rejected + limited)) return false;
  if (rejected > 0 && isFixed(requests, nowMs)) return false;
  return rejected < conditionTable.rejections.threshold;
}

function isLimited(limited: number, requests: number): boolean {
  return limited >= conditionTable.limited.threshold && limited / requests >= LIMITED_SHARE_MIN;
}
