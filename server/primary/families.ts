/** Metrics of the primary itself, as families of samples. */
import { readFileSync } from 'node:fs';
import { DAY_MS, type Horizon } from '../db/partitions.ts';
import { cpuSeconds, deliveryOutcomes, metricFamily } from '../telemetry/metrics.ts';
import type { DatabaseFigures } from './database-figures.ts';

interface PrimaryState {
  version: string;
  horizon: Horizon | null;
  /** Last successful maintenance, Unix milliseconds; 0 before the first. */
  maintainedMs: number;
  nowMs: number;
}

export function primaryFamilies({ version, horizon, maintainedMs, nowMs }: PrimaryState) {
  const tomorrowMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS;
  const daysAhead = horizon === null ? 0 : Math.max(0, Math.floor((horizon.toMs - tomorrowMs) / DAY_MS));
  return [
    metricFamily('weir_build_info', [{ labels: { version, node: process.versions.node }, value: 1 }]),
    metricFamily('process_start_time_seconds', [{ labels: {}, value: Math.round(performance.timeOrigin) / 1000 }]),
    metricFamily('process_cpu_seconds_total', [{ labels: {}, value: cpuSeconds() }]),
    metricFamily('weir_partitions_ahead', [{ labels: {}, value: daysAhead }]),
    metricFamily('weir_maintenance_timestamp_seconds', [{ labels: {}, value: Math.floor(maintainedMs / 1000) }]),
  ];
}

/** @param agents ids of the agents that have their own series. An agent without samples gets the value 0. */
export function databaseFamilies(figures: DatabaseFigures | null, agents: readonly string[], nowMs: number) {
  const zeros = [...agents, 'other'].map((agent) => ({ labels: { agent }, value: 0 }));
  const counters = [
    metricFamily(
      'weir_deliveries_settled_total',
      zeros.flatMap(({ labels }) => deliveryOutcomes.map((outcome) => ({ labels: { ...labels, outcome }, value: 0 }))),
    ),
    metricFamily('weir_leases_expired_total', zeros),
  ];
  if (figures === null) return counters;
  const depths = (read: (depth: DatabaseFigures['agents'][number]) => number) => [
    ...zeros,
    ...figures.agents.map((depth) => ({ labels: { agent: depth.agentId }, value: read(depth) })),
  ];
  const waited = depths(({ waitingSinceMs }) =>
    waitingSinceMs === null ? 0 : Math.max(0, nowMs - waitingSinceMs) / 1000,
  );
  return [
    ...counters,
    metricFamily(
      'weir_deliveries_pending',
      depths(({ pending }) => pending),
    ),
    metricFamily('weir_deliveries_oldest_pending_seconds', waited, 'max'),
    metricFamily(
      'weir_deliveries_leased',
      depths(({ leased }) => leased),
    ),
    metricFamily(
      'weir_deliveries_dead',
      depths(({ dead }) => dead),
    ),
    metricFamily('weir_deliveries_exact', [{ labels: {}, value: Number(figures.exact) }]),
    metricFamily('weir_database_bytes', [{ labels: {}, value: figures.databaseBytes }]),
    metricFamily('weir_database_read_timestamp_seconds', [{ labels: {}, value: Math.floor(figures.readAtMs / 1000) }]),
  ];
}

/** The version in package.json, which is beside server/, or beside dist/ when this file is compiled. */
export function readVersion(): string {
  for (const path of ['../../package.json', '../../../package.json'])
    try {
      return (JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { version: string }).version;
    } catch {
      // The file does not exist at this path.
    }
  return 'unknown';
}
