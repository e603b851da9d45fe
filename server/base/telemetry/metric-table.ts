/** The table of all metrics. The guide's table is generated from it. */
import type { MetricSample } from './series.ts';

const counter = (meaning: string) => ['counter', meaning] as const;
const gauge = (meaning: string) => ['gauge', meaning] as const;
const histogram = (meaning: string) => ['histogram', meaning] as const;

export const metricTable = {
  weir_requests_total: counter('answered requests, by route and status'),
  weir_requests_aborted_total: counter('requests whose client disconnected before the response, by route'),
  weir_problems_total: counter('responses with a problem document, by code (see the table of errors)'),
  weir_stage_seconds: histogram(
    'duration of each step of an ingest request (accept, body, limit, verify, commit, respond)',
  ),
  weir_request_seconds: histogram('time from the first header to the response, by route'),
  weir_commit_seconds: histogram('duration of one group commit'),
  weir_commit_events: histogram('events in one group commit'),
  weir_verify_batch_requests: histogram('requests in one batch for an HMAC thread'),
  weir_events_committed_total: counter('events stored'),
  weir_events_duplicate_total: counter(
    'duplicates, which were not stored again: the value of their dedupe_header was known',
  ),
  weir_events_in_doubt_total: counter('events whose commit was not confirmed and had to be looked up, by outcome'),
  weir_spool_events_written_total: counter('events answered 202 after they were written to the spool'),
  weir_spool_events_drained_total: counter(
    'events taken from the spool, by outcome: stored; duplicate (its key belongs to another event, so it was dropped); known (it was in the database already); refused (kept in the spool)',
  ),
  weir_spool_webhook_deleted_total: counter(
    'of the events stored from the spool, those whose webhook was deleted before they were stored',
  ),
  weir_spool_events: gauge('events in the spool that wait for the database'),
  weir_spool_bytes: gauge('size of the spool of this machine (at most INGEST_SPOOL_BYTES_MAX)'),
  weir_spool_oldest_seconds: gauge('how long the oldest event in the spool has waited; 0 if none is waiting'),
  weir_spool_files_kept: gauge('files of the spool that an operator has to look at, by state (damaged, refused)'),
  weir_alerts_active: gauge('active alerts, by condition, of the whole database'),
  weir_alert_requests_total: counter(
    'attempts of requests to ALERT_URL by this machine, by outcome: sent; failed (it is repeated); given_up',
  ),
  weir_spans_total: counter(
    'spans of traces, by outcome: sent; failed (the collector did not take them); limited (more than 1,000 a second of a process); queue_full',
  ),
  weir_signatures_verified_total: counter('verified signatures, by secret (current, previous)'),
  weir_rejections_total: counter('rejected signatures, by outcome (stored, sampled_out, queue_full, failed)'),
  weir_rejections_stored_total: counter('rejected signatures that were stored, by reason'),
  weir_rejection_bytes_held: gauge('memory of rejected requests that wait for diagnosis and storage'),
  weir_thread_failures_total: counter('HMAC threads that exited or hung'),
  weir_password_hashes_total: counter('password hashes computed for sign-ins, setup and password changes'),
  weir_password_requests: gauge('requests that hash a password, running or waiting'),
  weir_queue_events: gauge('events that wait for their commit'),
  weir_queue_fill_ratio: gauge(
    'events that wait for their commit in one queue, as a share of QUEUE_EVENTS_MAX: the fullest queue of all processes',
  ),
  weir_verify_queue_requests: gauge('requests that wait for an HMAC thread'),
  weir_body_bytes_held: gauge('memory held by request bodies'),
  weir_connections: gauge('open TCP connections'),
  weir_connections_refused_total: counter(
    'connections that were closed without a response, by limit: process (CONNECTIONS_MAX), client (CLIENT_CONNECTIONS_MAX)',
  ),
  weir_open_requests: gauge('requests in progress'),
  weir_cells_away: gauge('cells that cannot be used; their webhooks are refused or spooled'),
  weir_streams: gauge('open live streams (GET /api/v1/stream)'),
  weir_streams_dropped_total: counter('live streams that were closed because their client did not read'),
  weir_claims_waiting: gauge('claims that wait for a delivery'),
  weir_threads: gauge('HMAC threads that are up'),
  weir_webhooks_secret_unavailable: gauge(
    'webhooks with a stored secret that no key decrypts; their requests are answered 503 secret_unavailable',
  ),
  weir_database_up: gauge(
    'processes that can commit events: the connection is up, and the latest commit or trial commit succeeded',
  ),
  weir_requests_uncounted_total: counter(
    'requests allowed without being counted because the shared rate-limit store was unavailable, by limit',
  ),
  weir_pool_wait_seconds: histogram('time that a query waited for a connection of the pool (DB_POOL_MAX)'),
  weir_rate_limit_degraded: gauge('processes whose shared rate-limit store is unavailable'),
  weir_event_loop_lag_seconds: gauge(
    '99th percentile of the event-loop delay in the worst second of the last 60, of the worst process',
  ),
  weir_resident_bytes: gauge('resident memory, summed over processes'),
  weir_processes: gauge('serving processes'),
  weir_deliveries_unhandled_total: counter(
    'deliveries removed by retention before an agent settled them (counted by the primary that removed them)',
  ),
  weir_deliveries_pending: gauge('deliveries in state pending, by agent, of the whole database'),
  weir_deliveries_oldest_pending_seconds: gauge(
    'how long the oldest claimable delivery has waited, by agent, of the whole database; 0 if none is waiting',
  ),
  weir_deliveries_held: gauge(
    'pending deliveries that wait for another one with their key, by agent, of the whole database, among the first 100,000 that have a key',
  ),
  weir_deliveries_leased: gauge('deliveries under lease, by agent, of the whole database'),
  weir_deliveries_dead: gauge('dead letters, by agent, of the whole database'),
  weir_deliveries_exact: gauge(
    '1: the numbers of deliveries are counted; 0: more than 100,000 are waiting, or more than 100,000 dead, and the numbers are estimated from a sample',
  ),
  weir_deliveries_settled_total: counter(
    'deliveries settled, by outcome (acknowledged, retried, dead, filtered) and agent (the first 100; all others are other)',
  ),
  weir_filter_failures_total: counter(
    'events for which the filter of a subscription gave no verdict, and which were delivered, by agent',
  ),
  weir_events_replayed_total: counter('events that jobs have replayed (counted by the primary that ran them)'),
  weir_leases_expired_total: counter('leases that expired without an acknowledgement, by agent'),
  weir_database_bytes: gauge('size of the database on disk, with indexes'),
  weir_database_day_bytes: gauge(
    'size of the events and finished deliveries that were received yesterday (UTC): what a day adds until RETENTION_DAYS are stored',
  ),
  weir_database_read_timestamp_seconds: gauge(
    'when the metrics of the whole database were last read (Unix time); at most every 5 s, not while the database is unavailable',
  ),
  weir_disk_free_bytes: gauge(
    'free bytes of the disk of a place: data (DATA_DIR), spool, archive, postgres (the embedded server); absent while it cannot be read',
  ),
  weir_partitions_ahead: gauge('days after today that have partitions'),
  weir_maintenance_timestamp_seconds: gauge(
    'end of the last successful hourly maintenance (Unix time); 0: none since the start',
  ),
  weir_build_info: gauge(
    'always 1 for the primary and for each build that processes run; labels: versions of Weir and Node.js, and the commit',
  ),
  process_start_time_seconds: gauge('start of the primary (Unix time)'),
  process_cpu_seconds_total: counter('user and system CPU time, summed over the primary and all processes'),
  weir_log_lines_dropped_total: counter(
    'log lines that were not written because the reader of the log did not read, of the primary and all processes',
  ),
  weir_process_restarts_total: counter('processes that exited unexpectedly, hung, or were not ready in time'),
  weir_processes_replaced_for_memory_total: counter(
    'processes replaced because they used more than PROCESS_MEMORY_MAX',
  ),
  weir_rolling_restarts_total: counter('rolling restarts (HUP), by outcome (restarted, failed)'),
} as const satisfies Record<string, readonly ['counter' | 'gauge' | 'histogram', string]>;

export type MetricName = keyof typeof metricTable;

/** Metrics of a database. When there are cells, each has the label `cell`: the number, 0 for home. */
export const cellMetrics: ReadonlySet<string> = new Set([
  'weir_commit_seconds',
  'weir_commit_events',
  'weir_events_committed_total',
  'weir_events_duplicate_total',
  'weir_events_in_doubt_total',
  'weir_queue_events',
  'weir_queue_fill_ratio',
  'weir_database_up',
  'weir_database_bytes',
  'weir_database_day_bytes',
  'weir_deliveries_pending',
  'weir_deliveries_held',
  'weir_deliveries_oldest_pending_seconds',
  'weir_deliveries_leased',
  'weir_deliveries_dead',
] satisfies MetricName[]);

/** The labels of a series of a cell. Home gets its label on the metrics page, when there are cells: see withCells. */
export function cellLabels(cell: number): Record<string, string> {
  return cell === 0 ? {} : { cell: String(cell) };
}

type Family = { name: string; values: MetricSample[] };

/** Labels the series of home, if any series has the label `cell`. */
export function withCells<F extends Family>(snapshots: readonly (readonly F[])[]): F[][] {
  const isCell = ({ labels }: MetricSample) => labels.cell !== undefined;
  if (!snapshots.some((snapshot) => snapshot.some(({ values }) => values.some(isCell))))
    return snapshots.map((snapshot) => [...snapshot]);
  const labelled = (sample: MetricSample) =>
    isCell(sample) ? sample : { ...sample, labels: { ...sample.labels, cell: '0' } };
  return snapshots.map((snapshot) =>
    snapshot.map((family) =>
      cellMetrics.has(family.name) ? { ...family, values: family.values.map(labelled) } : family,
    ),
  );
}

/** Returns one metric in prom-client's JSON form. @param aggregator how to combine series with the same labels. */
export function metricFamily(name: MetricName, read: MetricSample[] | number, aggregator: 'sum' | 'max' = 'sum') {
  const [type, help] = metricTable[name];
  const values = typeof read === 'number' ? [{ labels: {}, value: read }] : read;
  return { name, help, type, values, aggregator };
}
