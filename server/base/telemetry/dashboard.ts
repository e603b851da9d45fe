/** The Grafana dashboard: one panel for each metric of the table. */
import { cellMetrics, type MetricName, metricTable } from './metric-table.ts';

interface Row {
  title: string;
  /** Whether the metric is of the whole database: every machine reports the same value, so the largest is shown instead of one a machine. */
  wholeDatabase?: true;
  /** The metrics in the order of their panels, each with the labels that its series are split by. */
  metrics: Partial<Record<MetricName, readonly string[]>>;
}

/** Panels by row. A metric that no row names is shown in the last row. */
const rows: readonly Row[] = [
  {
    title: 'Requests',
    metrics: {
      weir_requests_total: ['status'],
      weir_problems_total: ['code'],
      weir_request_seconds: [],
      weir_stage_seconds: ['stage'],
      weir_requests_aborted_total: ['route'],
      weir_rejections_stored_total: ['reason'],
    },
  },
  {
    title: 'Events',
    metrics: {
      weir_events_committed_total: [],
      weir_events_duplicate_total: [],
      weir_commit_seconds: [],
      weir_commit_events: [],
      weir_queue_fill_ratio: [],
      weir_events_in_doubt_total: ['outcome'],
    },
  },
  {
    title: 'Deliveries',
    wholeDatabase: true,
    metrics: {
      weir_deliveries_oldest_pending_seconds: ['agent_name'],
      weir_deliveries_pending: ['agent_name'],
      weir_deliveries_leased: ['agent_name'],
      weir_deliveries_dead: ['agent_name'],
      weir_deliveries_exact: [],
    },
  },
  {
    title: 'Agents',
    metrics: {
      weir_deliveries_settled_total: ['outcome', 'agent_name'],
      weir_leases_expired_total: ['agent_name'],
      weir_deliveries_unhandled_total: [],
      weir_claims_waiting: [],
    },
  },
  {
    title: 'Dependencies',
    metrics: {
      weir_database_up: [],
      weir_pool_wait_seconds: [],
      weir_rate_limit_degraded: [],
      weir_requests_uncounted_total: ['limit'],
    },
  },
  {
    title: 'Database',
    wholeDatabase: true,
    metrics: {
      weir_database_bytes: [],
      weir_database_day_bytes: [],
      weir_database_read_timestamp_seconds: [],
      weir_partitions_ahead: [],
    },
  },
  {
    title: 'Processes',
    metrics: {
      weir_processes: [],
      weir_process_restarts_total: [],
      weir_rolling_restarts_total: ['outcome'],
      weir_event_loop_lag_seconds: [],
      weir_resident_bytes: [],
      process_cpu_seconds_total: [],
      weir_log_lines_dropped_total: [],
      process_start_time_seconds: [],
      weir_build_info: ['version', 'commit', 'node'],
    },
  },
];

const PANEL = { columns: 3, w: 8, h: 7 } as const;
const QUANTILES = [0.5, 0.99];

/** The dashboard in Grafana's JSON format (schema 39, Grafana 10.4 and newer). The data source, job and instance are chosen on its page. */
export function dashboard() {
  const named = new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)));
  const rest = (Object.keys(metricTable) as MetricName[]).filter((name) => !named.has(name));
  const others: Row = { title: 'Others', metrics: Object.fromEntries(rest.map((name) => [name, []])) };
  const panels: object[] = [];
  let y = 0;
  for (const { title, wholeDatabase = false, metrics } of [...rows, others]) {
    const entries = Object.entries(metrics) as [MetricName, readonly string[]][];
    panels.push({ id: panels.length + 1, type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: 24, h: 1 } });
    for (const [i, [name, labels]] of entries.entries()) {
      const gridPos = {
        x: (i % PANEL.columns) * PANEL.w,
        y: y + 1 + Math.floor(i / PANEL.columns) * PANEL.h,
        w: PANEL.w,
        h: PANEL.h,
      };
      panels.push({ id: panels.length + 1, gridPos, ...panel(name, labels, wholeDatabase) });
    }
    y += 1 + Math.ceil(entries.length / PANEL.columns) * PANEL.h;
  }
  return {
    uid: 'weir',
    title: 'Weir',
    tags: ['weir'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        choice('job', 'Job', 'label_values(weir_build_info, job)'),
        choice('instance', 'Machine', 'label_values(weir_build_info{job=~"$job"}, instance)'),
      ],
    },
    panels,
  };
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana replaces the variable
const datasource = { type: 'prometheus', uid: '${datasource}' };

/** A variable of the dashboard: all values, or some of them. */
function choice(name: string, label: string, query: string) {
  const all = { includeAll: true, allValue: '.*', multi: true, current: { text: ['All'], value: ['$__all'] } };
  return { name, label, type: 'query', datasource, query: { query, refId: name }, refresh: 2, ...all };
}

function panel(name: MetricName, labels: readonly string[], wholeDatabase: boolean) {
  const [, meaning] = metricTable[name];
  // Without cells no series has the label `cell`.
  const cell = cellMetrics.has(name) ? ['cell'] : [];
  // The title is the first phrase of the meaning.
  const title = meaning.split(/[,;:(]| {2}/)[0]!.trim();
  return {
    type: 'timeseries',
    title: `${title[0]!.toUpperCase()}${title.slice(1)}`,
    description: `${name}: ${meaning}`,
    datasource,
    fieldConfig: { defaults: { unit: unitOf(name), min: 0, custom: { showPoints: 'never' } }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    targets: queries(name, [...(wholeDatabase ? [] : ['instance']), ...labels, ...cell]).map(({ expr, legend }, i) => ({
      refId: String.fromCharCode(65 + i),
      datasource,
      expr,
      legendFormat: legend === '' ? title : legend,
    })),
  };
}

function queries(name: MetricName, labels: readonly string[]): { expr: string; legend: string }[] {
  const [type] = metricTable[name];
  const own = '{job=~"$job",instance=~"$instance"}';
  const by = labels.length === 0 ? '' : ` by (${labels.join(', ')})`;
  const legend = labels.map((label) => `{{${label}}}`).join(' ');
  if (type === 'histogram')
    return QUANTILES.map((quantile) => ({
      expr: `histogram_quantile(${quantile}, sum by (${[...labels, 'le'].join(', ')}) (rate(${name}_bucket${own}[$__rate_interval])))`,
      legend: `${legend} p${quantile * 100}`,
    }));
  // A gauge is one series a machine and label set: its largest value is its only value.
  const value = name.endsWith('_timestamp_seconds') || name === 'process_start_time_seconds' ? 'time() - ' : '';
  const expr =
    type === 'counter' ? `sum${by} (rate(${name}${own}[$__rate_interval]))` : `${value}max${by} (${name}${own})`;
  return [{ expr, legend }];
}

/** Grafana's name of the unit. Counters are shown per second. */
function unitOf(name: MetricName): string {
  if (name === 'process_cpu_seconds_total') return 'percentunit';
  if (name.endsWith('_total')) return 'cps';
  if (name.endsWith('_seconds')) return 's';
  if (name.endsWith('_ratio')) return 'percentunit';
  return /_bytes(_held)?$/.test(name) ? 'bytes' : 'short';
}
