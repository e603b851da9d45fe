/** Reads the conditions that hold now, for the issues. */
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { Settings } from '../../base/settings/read.ts';
import { MINUTE_MS } from '../../base/time/durations.ts';
import { keptFor } from '../../base/time/shared-check.ts';
import { type ConditionKind, conditionTable } from '../../model/conditions.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import { DIED_MINUTES, type LowDisk, lowDisks, noDeaths, type ProcessDeath } from '../../model/machines.ts';
import { inWords } from '../../model/words.ts';
import { SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { PartialReads } from '../../store/cells/cells-database.ts';
import type { CommitFailure } from '../../store/commit-probe.ts';
import type { Database } from '../../store/connect/pool.ts';
import { isoTime } from '../../store/ids.ts';
import { readWaiting } from '../../store/queries/agents/activity.ts';
import { readFilters, type StoredFilter } from '../../store/queries/agents/filters.ts';
import {
  AGENTS_MAX,
  readActiveAgents,
  readDeadGroups,
  WEBHOOKS_MAX,
} from '../../store/queries/alerts/condition-signs.ts';
import { countExpiring, countUnarchived } from '../../store/queries/alerts/expiring.ts';
import { readOverdueWebhooks, readSilentWebhooks } from '../../store/queries/alerts/silent-webhooks.ts';
import { readUndelivered } from '../../store/queries/alerts/undelivered.ts';
import { readLongestHeld } from '../../store/queries/claims/held.ts';
import type { History } from '../live/counters.ts';
import { explainCommitFailure } from './commit-failure.ts';
import { cellSubject, diskSubject, FURTHER, type Held, lasting, PART_CHARACTERS_MAX, thisMachine } from './describe.ts';
import { readOldSecretConditions, readRefusalConditions, silentCondition, type Whole } from './webhook-conditions.ts';

/** How long a list read from the history is reused by a process. */
const REFUSED_VALID_MS = 5_000;
/** The same time for lists that change slowly: silent webhooks, filters, and what retention removes. */
const SLOW_VALID_MS = 60_000;
/** Filters that are checked; weir doctor checks more. */
const FILTERS_MAX = 2_000;

export interface ReaderParts {
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

/** Finds conditions that hold. @param nowMs Unix milliseconds */
type Reader = (nowMs: number) => Promise<Held[]>;

/**
 * Returns a function that reads the conditions, most lists from a cache. It rejects with errors of the database. `cut`: kinds of which more
 * conditions may hold than were read.
 */
export function heldReader(
  parts: ReaderParts,
): (nowMs: number) => Promise<{ held: Held[]; cut: ReadonlySet<ConditionKind> }> {
  const cut = new Map<string, readonly ConditionKind[]>();
  const whole: Whole = (list, max, rows, kinds) => {
    cut.set(list, rows.length < max ? [] : kinds);
    return rows;
  };
  const { settings, database, history, commitFailure, spoolFolder, cells } = parts;
  /** Reads a list from all cells. While a cell is away its rows are missing, so conditions of these kinds may hold there. */
  const overCells = async (kinds: readonly ConditionKind[], read: (reads: Database) => Promise<Held[]>) => {
    const reads = new PartialReads(database);
    const held = await read(reads);
    cut.set(`cells: ${kinds}`, reads.cellsAway === undefined ? [] : kinds);
    return held;
  };
  const retention = { retentionDays: settings.RETENTION_DAYS, keepUndeliveredDays: settings.KEEP_UNDELIVERED_DAYS };
  const spool = spoolFolder === null ? null : new SpoolReader(realDisk, spoolFolder);
  const readers: Reader[] = [
    async () => {
      const failure = await commitFailure();
      const since = history.latest?.outage?.began_at;
      return failure === null
        ? []
        : [{ kind: 'database', ...(since === undefined ? {} : { since }), ...causeOf(failure) }];
    },
    async () => {
      const { events = 0 } = (await spool?.read().catch(() => null)) ?? {};
      return events === 0
        ? []
        : [{ kind: 'spool', subject: { ...thisMachine(), id: basename(spoolFolder!) }, value: events }];
    },
    async () => cells.all().flatMap((cell) => (cell.trouble === null ? [] : [cellCondition(cell)])),
    async (nowMs) => liveConditions(history, nowMs),
    (nowMs) =>
      overCells(['dead_letters', 'pending'], (reads) =>
        readAgentConditions(reads, settings.ALERT_PENDING_SECONDS, nowMs),
      ),
    (nowMs) => overCells(['held'], (reads) => readHeldConditions(reads, settings.ALERT_PENDING_SECONDS, nowMs)),
    () =>
      overCells(['undelivered'], async (reads) => {
        const agents = whole('undelivered', AGENTS_MAX, await readUndelivered(reads), ['undelivered']);
        return agents.map(({ count: value, ...subject }) => ({ kind: 'undelivered', subject, value }));
      }),
    keptFor(REFUSED_VALID_MS, (nowMs) => readRefusalConditions(database, whole, nowMs)),
    (nowMs) => readOldSecretConditions(database, whole, nowMs),
    keptFor(SLOW_VALID_MS, async () =>
      filterConditions(whole('filters', FILTERS_MAX, await readFilters(database, null, FILTERS_MAX), ['filter'])),
    ),
    keptFor(SLOW_VALID_MS, (nowMs) =>
      overCells(['expiring', 'archive'], (reads) => readRetentionConditions(reads, retention, nowMs)),
    ),
    async (nowMs) => {
      const overdue = whole('overdue', WEBHOOKS_MAX, await readOverdueWebhooks(database, nowMs), ['silent']);
      return overdue.map((one) => silentCondition(one, nowMs));
    },
    keptFor(SLOW_VALID_MS, async (nowMs) => {
      const silent = whole('silent', WEBHOOKS_MAX, await readSilentWebhooks(database, nowMs), ['silent']);
      return silent.map((one) => silentCondition(one, nowMs));
    }),
  ];
  return async (nowMs) => {
    const held = (await Promise.all(readers.map((read) => read(nowMs)))).flat();
    return { held, cut: new Set([...cut.values()].flat()) };
  };
}

async function readAgentConditions(database: Database, threshold: number, nowMs: number): Promise<Held[]> {
  const agents = await readActiveAgents(database);
  const names = new Map(agents.map(({ id, name }) => [id, name]));
  const subjectOf = (id: string) => ({ id, name: names.get(id)! });
  const [dead, waiting] = await Promise.all([
    readDeadGroups(database, [...names.keys()]),
    readWaiting(database, [...names.keys()]),
  ]);
  const paused = agents.flatMap(({ id, paused_at: since }) =>
    since === null ? [] : lasting('paused', subjectOf(id), since, nowMs),
  );
  const late = waiting.flatMap(({ agent_id, since, paused }) =>
    paused ? [] : { ...lasting('pending', subjectOf(agent_id), since, nowMs), threshold },
  );
  return [
    ...dead.map(({ agent_id, reason, is_rest, count: value, first_at: since }): Held => {
      const facts = { kind: 'dead_letters', subject: subjectOf(agent_id), value, since } as const;
      if (is_rest) return { ...facts, ...FURTHER };
      const query = reason === null ? '' : `&reason=${encodeURIComponent(reason)}`;
      return { ...facts, part: partOf(reason), query, cause: shortened(reason) };
    }),
    ...paused.filter(({ value }) => value > conditionTable.paused.threshold),
    ...late.filter(({ value }) => value > threshold),
  ];
}

const REASON_CHARACTERS_SHOWN = 120;

function shortened(reason: string | null): string {
  if (reason === null) return 'the agent gave no reason';
  // Cut by characters: Postgres refuses half of a surrogate pair.
  const characters = [...reason];
  return characters.length > REASON_CHARACTERS_SHOWN
    ? `${characters.slice(0, REASON_CHARACTERS_SHOWN).join('')}…`
    : reason;
}

/** The name of a reason's group in issues.part: its JSON, or a hash if that is too long. A control character takes six characters of JSON. */
function partOf(reason: string | null): string {
  const text = JSON.stringify(reason);
  return text.length <= PART_CHARACTERS_MAX ? text : createHash('sha256').update(text).digest('hex');
}

async function readHeldConditions(database: Database, threshold: number, nowMs: number): Promise<Held[]> {
  const held = await readLongestHeld(database);
  return held
    .map(({ agent_id: id, name, since }) => ({ ...lasting('held', { id, name }, since, nowMs), threshold }))
    .filter(({ value }) => value > threshold);
}

/** Undelivered events that are about to be removed, and days that could not be archived. */
export async function readRetentionConditions(
  database: Database,
  retention: Parameters<typeof countExpiring>[1],
  nowMs: number,
): Promise<Held[]> {
  const counts = {
    expiring: await countExpiring(database, retention, nowMs),
    archive: await countUnarchived(database, retention, nowMs),
  };
  return (['expiring', 'archive'] as const).flatMap((kind) =>
    counts[kind] > 0 ? [{ kind, value: counts[kind] }] : [],
  );
}

function causeOf(failure: CommitFailure): Pick<Held, 'cause' | 'fix'> {
  const { finding, fix, said } = explainCommitFailure(failure);
  return { cause: finding, fix: `${fix[0]!.toUpperCase()}${fix.slice(1)}. Postgres said: ${said}` };
}

function diskCondition(disk: LowDisk): Held {
  const { freeBytes, fullInSeconds } = disk;
  const cause = fullInSeconds === null ? '' : inWords(fullInSeconds);
  return { kind: 'disk', subject: diskSubject(disk), value: freeBytes, cause };
}

function cellCondition(cell: Cell): Held {
  const cause = cell.failure === null ? { cause: cell.away! } : causeOf(cell.failure);
  return { kind: 'cell', subject: cellSubject(cell), since: isoTime(cell.troubleSinceMs), ...cause };
}

function liveConditions({ latest, seconds }: ReaderParts['history'], nowMs: number): Held[] {
  const processes = latest?.processes ?? [];
  const refused = seconds.reduce((sum, second) => sum + second.connections_refused, 0);
  const { newest } = latest?.process_deaths ?? noDeaths;
  const isOff = processes.some((one) => one.rate_limit_store === 'degraded');
  return [
    ...processes
      .filter(({ state }) => state === 'unresponsive')
      .map(({ pid }): Held => ({ kind: 'process', subject: { id: String(pid), name: String(pid) } })),
    ...(refused > 0 ? [{ kind: 'connections', subject: thisMachine(), value: refused } as const] : []),
    ...lowDisks(latest?.disks ?? []).map(diskCondition),
    ...deathCondition(newest.filter(({ at }) => nowMs - Date.parse(at) < DIED_MINUTES * MINUTE_MS)),
    ...(isOff ? [{ kind: 'rate_limits' } as const] : []),
  ];
}

/** @param deaths newest first */
function deathCondition(deaths: readonly ProcessDeath[]): Held[] {
  const [last] = deaths;
  if (last === undefined) return [];
  const { at: since, reason: cause } = last;
  return [{ kind: 'process_died', subject: thisMachine(), value: deaths.length, since, cause }];
}

/** The agents with filters that do not judge, with the cause of the first one. */
export function filterConditions(filters: readonly StoredFilter[]): Held[] {
  const byAgent = new Map<string, Held & { value: number }>();
  for (const { agentId, agentName, webhookId, webhookName, filter, suspendedUntil } of filters) {
    const fault = filterProblem(filter);
    if (fault === null && suspendedUntil === null) continue;
    const first = byAgent.get(agentId) ?? {
      kind: 'filter',
      subject: { id: agentId, name: agentName },
      value: 0,
      cause: `that on webhook ${webhookName} is ${fault === null ? `suspended until ${suspendedUntil} (it took too long on several events)` : `not valid in this version (${fault})`}`,
      fix: `Change it on the page of the agent, or: weir agent subscribe ${agentId} --webhook ${webhookId} --filter EXPRESSION`,
    };
    byAgent.set(agentId, { ...first, value: first.value + 1 });
  }
  return [...byAgent.values()];
}
