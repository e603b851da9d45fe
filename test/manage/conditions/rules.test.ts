/** The alert rules: valid for promtool, and each one fires on a fault and is quiet without it. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { metricTable } from '../../../server/base/telemetry/metric-table.ts';
import { prometheusRules, type Rule, type RuleName, ruleTable } from '../../../server/manage/conditions/rules.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

const folder = temporaryDirectory();
const rulesFile = join(folder, 'rules.yml');
writeFileSync(rulesFile, prometheusRules());

/** Throws with the report of promtool when it fails. */
function promtool(...args: string[]): string {
  return execFileSync('promtool', args, { encoding: 'utf8', stdio: 'pipe' });
}

/** Series by selector, one value a minute in the notation of promtool (`5x3`: 5 and 3 more, `0+2x3`: 0, 2, 4, 6). */
type Series = Record<string, string>;

interface Scenario {
  fires: Series;
  quiet: Series;
  /** Labels of the alert, besides severity. */
  labels?: Record<string, string>;
  /** When both are judged, minutes after the first value; until forMinutes after the fault, the alert is pending. */
  atMinutes?: number;
  /** A minute at which the fault is there, but not for forMinutes. */
  pendingMinutes?: number;
}

const machine = 'job="weir",instance="a:9464"';
const machineLabels = { job: 'weir', instance: 'a:9464' };
const agent = 'job="weir",agent="1",agent_name="ci"';
const agentLabels = { job: 'weir', agent: '1', agent_name: 'ci' };
const steady = '0x120';

/** One series of the machine, of this name and with these labels, with the values of a fault and without one. */
function series(selector: string, fault: string, none: string, pendingMinutes?: number): Scenario {
  const [name, more = ''] = selector.replace('}', '').split('{') as [string, string?];
  const own = `${name}{${[machine, more].filter(Boolean).join()}}`;
  const added = [...more.matchAll(/(\w+)="(\w+)"/g)].map(([, label, value]) => [label!, value!]);
  const labels = { ...machineLabels, ...Object.fromEntries(added) };
  return {
    fires: { [own]: fault },
    quiet: { [own]: none },
    labels,
    ...(pendingMinutes !== undefined && { pendingMinutes }),
  };
}

/** A counter that was higher by this much, and by as much as is usual, twenty minutes after the first value. */
const counted = (selector: string, fault: number, usual: string) => series(selector, `0x20 ${fault}x100`, usual);

function histogram(name: string): Scenario {
  const buckets = (below: string) => ({
    [`${name}_bucket{${machine},le="1"}`]: below,
    [`${name}_bucket{${machine},le="2.5"}`]: '0+100x120',
    [`${name}_bucket{${machine},le="+Inf"}`]: '0+100x120',
  });
  return { fires: buckets('0+98x120'), quiet: buckets('0+99.5x120'), labels: machineLabels, pendingMinutes: 9 };
}

/** More series for which no rule fires. */
const beside = (one: Scenario, quiet: Series): Scenario => ({ ...one, quiet: { ...one.quiet, ...quiet } });

const received = (status: number, route = '/in/:webhook_id') =>
  `weir_requests_total{${machine},route="${route}",status="${status}"}`;
const settled = (outcome: string) => `weir_deliveries_settled_total{${agent},instance="a",outcome="${outcome}"}`;
const other = 'weir_build_info{job="weir",instance="b:9464"}';

const scenarios: Record<RuleName, Scenario> = {
  WeirDown: {
    fires: { 'up{job="weir",instance="a:9464"}': steady },
    quiet: { [`weir_build_info{${machine}}`]: '1x120' },
    pendingMinutes: 0,
  },
  WeirInstanceMissing: {
    fires: { [`weir_build_info{${machine}}`]: '1x10', [other]: '1x120' },
    quiet: { [`weir_build_info{${machine}}`]: '1x120', [other]: '1x120' },
    labels: machineLabels,
  },
  WeirIngestErrors: {
    fires: { [received(202)]: '0+97x120', [received(503)]: '0+3x120' },
    quiet: { [received(202)]: '0+1000x120', [received(503)]: '0+3x120', [received(503, '/readyz')]: '0+900x120' },
    labels: machineLabels,
    pendingMinutes: 4,
  },
  WeirDatabaseDown: {
    fires: { [`weir_database_up{${machine}}`]: '2x9 1x110', [`weir_processes{${machine}}`]: '2x120' },
    quiet: { [`weir_database_up{${machine}}`]: '2x120', [`weir_processes{${machine}}`]: '2x120' },
    labels: machineLabels,
    pendingMinutes: 10,
  },
  WeirMemoryReplacements: counted('weir_processes_replaced_for_memory_total', 4, '0x20 2x100'),
  WeirQueueNearlyFull: series('weir_queue_fill_ratio', '0.81x120', '0.8x120', 0),
  WeirRequestsShed: beside(series('weir_problems_total{code="queue_full"}', '0+1x120', '7x120', 4), {
    [`weir_problems_total{${machine},code="webhook_unknown"}`]: '0+9x120',
  }),
  WeirRejections: {
    ...series('weir_rejections_total{outcome="stored"}', '0+61x120', '0+60x120', 9),
    labels: machineLabels,
  },
  WeirDeliveriesWaiting: {
    fires: {
      [`weir_deliveries_oldest_pending_seconds{${agent},instance="a"}`]: '301x120',
      [`weir_deliveries_oldest_pending_seconds{${agent},instance="b"}`]: '301x120',
    },
    quiet: { [`weir_deliveries_oldest_pending_seconds{${agent},instance="a"}`]: '300x120' },
    labels: agentLabels,
    pendingMinutes: 4,
  },
  WeirDeadLetters: {
    fires: { [settled('dead')]: '0x20 1x100' },
    quiet: { [settled('dead')]: '5x120', [settled('retried')]: '0+5x120' },
    labels: agentLabels,
  },
  WeirDeliveriesUnhandled: counted('weir_deliveries_unhandled_total', 3, '3x120'),
  WeirProcessRestarts: counted('weir_process_restarts_total', 4, '0x20 2x100'),
  WeirRestartFailed: beside(counted('weir_rolling_restarts_total{outcome="failed"}', 1, '1x120'), {
    [`weir_rolling_restarts_total{${machine},outcome="restarted"}`]: '0x20 1x100',
  }),
  WeirLogLinesDropped: series('weir_log_lines_dropped_total', '0+1x120', '12x120'),
  WeirSpoolWaiting: series('weir_spool_oldest_seconds', '1+60x120', steady, 4),
  WeirDiskLow: beside(series('weir_disk_free_bytes{place="postgres"}', '5000000000x120', '6000000000x120', 9), {
    [`weir_disk_free_bytes{${machine},place="data"}`]: '2000000000x120',
  }),
  WeirSpoolFilesKept: series('weir_spool_files_kept{state="damaged"}', '1x120', steady, 0),
  WeirRateLimitDegraded: series('weir_rate_limit_degraded', '1x120', steady, 1),
  WeirSecretUnavailable: series('weir_webhooks_secret_unavailable', '1x120', steady, 0),
  WeirThreadFailures: counted('weir_thread_failures_total', 4, '0x20 2x100'),
  WeirEventLoopLag: series('weir_event_loop_lag_seconds', '0.6x120', '0.5x120', 4),
  WeirCommitsSlow: histogram('weir_commit_seconds'),
  WeirPoolExhausted: histogram('weir_pool_wait_seconds'),
  WeirPartitionsMissing: series('weir_partitions_ahead', '1x120', '2x120', 9),
  // The clock of promtool starts at 0, as this Weir did; its maintenance succeeded once, after an hour, and later every hour.
  WeirMaintenanceLate: {
    fires: {
      [`process_start_time_seconds{${machine}}`]: '0x300',
      [`weir_maintenance_timestamp_seconds{${machine}}`]: '0x60 3600x240',
    },
    quiet: {
      [`process_start_time_seconds{${machine}}`]: '0x300',
      [`weir_maintenance_timestamp_seconds{${machine}}`]: '0x60 3600x60 7200x60 10800x120',
    },
    labels: machineLabels,
    atMinutes: 260,
    pendingMinutes: 245,
  },
};

/** A test file of promtool with one case: this alert with these labels fires at the minute, or nothing does. */
function unitTest(name: string, alert: Rule, series: Series, minutes: number, labels: Record<string, string> | null) {
  const fired = {
    exp_labels: { severity: alert.severity, ...labels },
    exp_annotations: { summary: alert.summary, runbook: alert.runbook },
  };
  return {
    name: `${name} at ${minutes} min`,
    interval: '1m',
    input_series: Object.entries(series).map(([selector, values]) => ({ series: selector, values })),
    alert_rule_test: [{ eval_time: `${minutes}m`, alertname: name, exp_alerts: labels === null ? [] : [fired] }],
  };
}

function check(tests: object[]): string {
  const file = join(folder, 'tests.json');
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ rule_files: [rulesFile], evaluation_interval: '1m', tests }));
  return promtool('test', 'rules', file);
}

test('promtool accepts the rules', () => {
  expect(promtool('check', 'rules', rulesFile)).toContain(`SUCCESS: ${Object.keys(ruleTable).length} rules found`);
  const { groups } = parse(prometheusRules()) as { groups: { rules: Record<string, unknown>[] }[] };
  expect(groups[0]!.rules.map(({ alert }) => alert)).toEqual(Object.keys(ruleTable));
});

test.each(Object.entries(scenarios))(
  '%s fires on the fault, not before its time, and not without the fault',
  (name, scenario) => {
    const alert = ruleTable[name as RuleName];
    const { fires, quiet, labels = {}, atMinutes = 30, pendingMinutes } = scenario;
    const cases = [
      unitTest(name, alert, fires, atMinutes, labels),
      unitTest(name, alert, quiet, atMinutes, null),
      ...(pendingMinutes === undefined ? [] : [unitTest(name, alert, fires, pendingMinutes, null)]),
    ];
    expect(check(cases)).toContain('SUCCESS');
  },
);

test('with cells, the alert of a database that does not commit names the cell', () => {
  const series = {
    [`weir_database_up{${machine},cell="0"}`]: '2x120',
    [`weir_database_up{${machine},cell="1"}`]: '1x120',
    [`weir_processes{${machine}}`]: '2x120',
  };
  const labels = { ...machineLabels, cell: '1' };
  expect(check([unitTest('WeirDatabaseDown', ruleTable.WeirDatabaseDown, series, 30, labels)])).toContain('SUCCESS');
});

test('an alert that does not fire is reported', () => {
  const { fires } = scenarios.WeirDatabaseDown;
  expect(() => check([unitTest('WeirDatabaseDown', ruleTable.WeirDatabaseDown, fires, 30, null)])).toThrow('FAILED');
});

test('every rule reads only metrics of the table', () => {
  const suffix = /_(bucket|sum|count)$/;
  for (const [name, { expr }] of Object.entries<Rule>(ruleTable)) {
    const read = expr.match(/\b(?:weir|process)_\w+/g)?.map((metric) => metric.replace(suffix, '')) ?? [];
    expect([name, read.length > 0]).toEqual([name, true]);
    for (const metric of read) expect(Object.keys(metricTable)).toContain(metric);
  }
});
