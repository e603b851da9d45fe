/** Metrics of the primary and of the whole database. However often the page is scraped, the database is read at most every few seconds. */
import { type Build, build } from '../../base/files/build.ts';
import { cellLabels, metricFamily } from '../../base/telemetry/metric-table.ts';
import { cpuSeconds, deliveryOutcomes } from '../../base/telemetry/metrics.ts';
import { DAY_MS } from '../../base/time/durations.ts';
import { within } from '../../base/time/every.ts';
import { SharedCheck } from '../../base/time/shared-check.ts';
import type { CellDatabase, CellList } from '../../store/cells/cells-database.ts';
import { readAgentNames } from '../../store/queries/agents/agents.ts';
import { readTemporaryAgents } from '../../store/queries/agents/temporary.ts';
import { type DeliveryDepths, readDeliveryDepths, withinTimeout } from '../../store/queries/deliveries/counts.ts';
import { type DatabaseSize, readDatabaseClock, readDatabaseSize } from '../../store/queries/server-state.ts';
import type { Horizon } from '../../store/retention/partitions.ts';
import type { MetricsSnapshot } from './messages.ts';

interface CellFigures extends DeliveryDepths, DatabaseSize {
  /** Number of the cell; 0: home. */
  cell: number;
  /** How far the clock of the database, which sets its times, was ahead of the monotonic clock of this process. */
  clockAheadMs: number;
}

export interface DatabaseFigures {
  /** Agents that have their own series, by id. */
  names: { id: string; name: string }[];
  /** Home first, then the other cells that answered. */
  cells: CellFigures[];
  /** Unix milliseconds. */
  readAtMs: number;
}

/** Maximum number of agents with their own series: active agents first, then oldest first. All others share one series. */
export const AGENT_SERIES_MAX = 100;
/** Minimum cache lifetime. A slow read extends it, so that reads take at most BUSY_SHARE_MAX of the time. */
const KEPT_MS = 5_000;
const BUSY_SHARE_MAX = 0.05;
/** Longest wait of the first scrape, and of one that then returns the previous figures. A read of 1,000,000 deliveries takes longer. */
const PATIENCE_MS = 1_000;
const AGAIN_PATIENCE_MS = 50;

/**
 * Returns a function that resolves with the latest figures within AGAIN_PATIENCE_MS; with null before the first successful read, which it
 * awaits for PATIENCE_MS.
 * @param nowMs monotonic clock, in milliseconds
 */
export function figureReader(cells: Pick<CellList, 'all'>, nowMs = () => performance.now()) {
  let newest: DatabaseFigures | null = null;
  let tookMs = 0;
  const check = new SharedCheck({
    ask: async () => {
      const startedMs = nowMs();
      newest = await readFigures(cells.all()).finally(() => {
        tookMs = nowMs() - startedMs;
      });
      return true;
    },
    validMs: () => Math.max(KEPT_MS, tookMs / BUSY_SHARE_MAX),
    patienceMs: PATIENCE_MS,
    late: false,
    nowMs,
  });
  return async (): Promise<DatabaseFigures | null> => {
    const read = check.answer();
    await (newest === null ? read : within(AGAIN_PATIENCE_MS, read));
    return newest;
  };
}

async function readFigures([home, ...others]: readonly CellDatabase[]): Promise<DatabaseFigures> {
  const cells = [
    await readCell(home!),
    ...(await Promise.all(others.map((cell) => (cell.away === null ? readCell(cell).catch(() => null) : null)))),
  ].filter((figures) => figures !== null);
  return withinTimeout(home!.database, async (query) => {
    // The backlog of a temporary agent raises no alert: a developer may stop it at any time.
    const temporary = await readTemporaryAgents({ query });
    return {
      names: await readAgentNames({ query }, AGENT_SERIES_MAX),
      cells: cells.map((figures) => ({
        ...figures,
        agents: figures.agents.filter(({ agentId }) => !temporary.has(agentId)),
      })),
      readAtMs: Date.now(),
    };
  });
}

async function readCell({ number: cell, database }: CellDatabase): Promise<CellFigures> {
  const depths = await readDeliveryDepths(database);
  return withinTimeout(database, async (query) => ({
    ...depths,
    cell,
    ...(await readDatabaseSize({ query })),
    clockAheadMs: (await readDatabaseClock({ query })) - performance.now(),
  }));
}

interface PrimaryState {
  horizon: Horizon;
  /** Last successful maintenance, Unix milliseconds; 0 before the first. */
  maintainedMs: number;
}

/** Metrics of the primary itself. @param builds those of the serving processes */
export function primaryFamilies(
  { horizon, maintainedMs }: PrimaryState,
  builds: readonly Build[],
  logLinesDropped: number,
) {
  const tomorrowMs = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS;
  const { node } = process.versions;
  const running = [build(), ...builds].map(({ version, commit }) => ({ labels: { version, commit, node }, value: 1 }));
  const daysAhead = Math.max(0, Math.floor((horizon.toMs - tomorrowMs) / DAY_MS));
  return [
    metricFamily('weir_build_info', running, 'max'),
    metricFamily('process_start_time_seconds', Math.round(performance.timeOrigin) / 1000),
    metricFamily('process_cpu_seconds_total', cpuSeconds()),
    metricFamily('weir_log_lines_dropped_total', logLinesDropped),
    metricFamily('weir_partitions_ahead', daysAhead),
    metricFamily('weir_maintenance_timestamp_seconds', Math.floor(maintainedMs / 1000)),
  ];
}

/** Metrics of the whole database. @param agents ids of the agents that have their own series. One without samples gets the value 0. */
export function databaseFamilies(figures: DatabaseFigures | null, agents: readonly string[]) {
  const zeros = [...agents, 'other'].map((agent) => ({ labels: { agent }, value: 0 }));
  const counters = [
    metricFamily(
      'weir_deliveries_settled_total',
      zeros.flatMap(({ labels }) => deliveryOutcomes.map((outcome) => ({ labels: { ...labels, outcome }, value: 0 }))),
    ),
    metricFamily('weir_leases_expired_total', zeros),
    metricFamily('weir_filter_failures_total', zeros),
  ];
  if (figures === null) return counters;
  const depths = (read: (depth: Cell['agents'][number], cell: Cell) => number) =>
    figures.cells.flatMap((cell) => {
      const own = cellLabels(cell.cell);
      return [
        ...zeros.map(({ labels, value }) => ({ labels: { ...labels, ...own }, value })),
        ...withOthers(cell.agents, agents).map((depth) => ({
          labels: { agent: depth.agentId, ...own },
          // A server that answers with text must not add lines to the page.
          value: Number(read(depth, cell)),
        })),
      ];
    });
  const waited = depths(({ waitingSinceMs }, { clockAheadMs }) =>
    waitingSinceMs === null ? 0 : Math.max(0, performance.now() + clockAheadMs - waitingSinceMs) / 1000,
  );
  const sizes = (size: 'bytes' | 'dayBytes') =>
    figures.cells.map((figuresOf) => ({ labels: cellLabels(figuresOf.cell), value: figuresOf[size] }));
  const isExact = figures.cells.every(({ exact }) => exact);
  return [
    ...counters,
    ...(['pending', 'held', 'leased', 'dead'] as const).map((state) =>
      metricFamily(
        `weir_deliveries_${state}`,
        depths((depth) => depth[state]),
      ),
    ),
    metricFamily('weir_deliveries_oldest_pending_seconds', waited, 'max'),
    metricFamily('weir_deliveries_exact', Number(isExact)),
    metricFamily('weir_database_bytes', sizes('bytes')),
    metricFamily('weir_database_day_bytes', sizes('dayBytes')),
    metricFamily('weir_database_read_timestamp_seconds', Math.floor(figures.readAtMs / 1000)),
  ];
}

type Cell = DatabaseFigures['cells'][number];
type Depth = Cell['agents'][number];

/** The agents that have their own series, and the sum of all others: the page would add up the samples of thousands of agents one by one. */
function withOthers(depths: readonly Depth[], agents: readonly string[]): Depth[] {
  const own = new Set(agents);
  const others: Depth = { agentId: OTHER.agent, pending: 0, held: 0, leased: 0, dead: 0, waitingSinceMs: null };
  for (const { agentId, pending, held, leased, dead, waitingSinceMs } of depths) {
    if (own.has(agentId)) continue;
    others.pending += pending;
    others.held += held;
    others.leased += leased;
    others.dead += dead;
    if (waitingSinceMs !== null)
      others.waitingSinceMs = Math.min(waitingSinceMs, others.waitingSinceMs ?? waitingSinceMs);
  }
  return [...depths.filter(({ agentId }) => own.has(agentId)), others];
}

type Labels = Record<string, string>;
type Family = { values: { labels: Labels }[] };

/** The labels of the series that all other agents share. */
const OTHER = { agent: 'other', agent_name: '' };

/** Limits the agent series of the page. An agent keeps its series: moving its total to the shared one would count it twice. */
export class AgentSeries {
  readonly #names = new Map<string, string>();

  /** Adds new agents up to the limit, and updates the names of known agents. */
  admit(agents: DatabaseFigures['names']): void {
    for (const { id, name } of agents)
      if (this.#names.has(id) || this.#names.size < AGENT_SERIES_MAX) this.#names.set(id, name);
  }

  /** The value of the label `agent` for an agent: its id, or `other`. */
  known(id: string): string {
    return this.#names.has(id) ? id : OTHER.agent;
  }

  get ids(): string[] {
    return [...this.#names.keys()];
  }

  /** Adds the agent's name to the labels of each family. The metrics page sums series whose labels become equal. */
  label(snapshot: MetricsSnapshot): MetricsSnapshot {
    return (snapshot as Family[]).map((family) =>
      family.values.some(({ labels }) => labels.agent !== undefined)
        ? { ...family, values: family.values.map((value) => ({ ...value, labels: this.#labelsOf(value.labels) })) }
        : family,
    );
  }

  #labelsOf(labels: Labels): Labels {
    const { agent } = labels;
    if (agent === undefined) return labels;
    const name = this.#names.get(agent);
    return { ...labels, ...(name === undefined ? OTHER : { agent, agent_name: name }) };
  }
}
