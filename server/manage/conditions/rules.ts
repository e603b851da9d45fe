/**
 * The Prometheus rules: when each rule fires, what it means and what to do. A rule about a condition of model/conditions.ts takes
 * threshold, severity and texts from there; the other rules are about faults that only metrics show. `weir metrics alerts`,
 * `weir doctor --alert` and the guide's table are made from these rules.
 */
import type { MetricName, metricTable } from '../../base/telemetry/metric-table.ts';
import {
  type ConditionKind,
  conditionTable,
  DEAD_NEW_MINUTES,
  PARTITIONS_AHEAD_MIN,
  reportOf,
} from '../../model/conditions.ts';
import type { ProblemCode } from '../../model/errors.ts';
import { diskPlaces, FULL_WITHIN_DAYS } from '../../model/machines.ts';

export interface Rule {
  /** A PromQL expression; the alert fires while it has a result. */
  expr: string;
  /** How long the expression must have a result. */
  forMinutes: number;
  /** `critical`: senders or agents are affected, act now. `warning`: act today. */
  severity: 'critical' | 'warning';
  /** What is wrong, one sentence. */
  summary: string;
  /** What to look at and what to do. */
  runbook: string;
}

type Histogram = {
  [Name in MetricName]: (typeof metricTable)[Name][0] extends 'histogram' ? Name : never;
}[MetricName];

/** An expression. Metrics, problem codes and thresholds are placeholders, so that a name that does not exist does not compile. */
function promql(
  text: TemplateStringsArray,
  ...names: (MetricName | `${Histogram}_bucket` | ProblemCode | number)[]
): string {
  return String.raw({ raw: text }, ...names);
}

function about(kind: RuledKind): Pick<Rule, 'severity' | 'summary' | 'runbook'> {
  const { severity, runbook }: { severity: Rule['severity']; runbook: string } = conditionTable[kind];
  const { meaning } = kind === 'database' || kind === 'rate_limits' ? conditionTable[kind] : reportOf(kind);
  return { severity, summary: `${meaning[0]!.toUpperCase()}${meaning.slice(1)}.`, runbook };
}

type RuledKind = {
  [Kind in ConditionKind]: (typeof conditionTable)[Kind] extends { runbook: string } ? Kind : never;
}[ConditionKind];

const { pending, rejections } = conditionTable;
const LOG = 'Follow the log: docker compose logs --follow weir, or journalctl --follow --unit weir.';

export const ruleTable = {
  WeirDown: {
    expr: promql`absent(${'weir_build_info'})`,
    forMinutes: 1,
    severity: 'critical',
    summary: 'No instance of Weir answers the scrapes of Prometheus.',
    runbook: `Ask /healthz of a machine. If it answers, the metrics page is unreachable: check METRICS_HOST, METRICS_PORT and the scrape target. Otherwise start Weir; if it stops again, the last lines of the log state why. ${LOG}`,
  },
  WeirInstanceMissing: {
    expr: promql`max by (job, instance) (last_over_time(${'weir_build_info'}[1h])) unless max by (job, instance) (${'weir_build_info'})`,
    forMinutes: 2,
    severity: 'warning',
    summary: 'An instance of Weir that answered within the last hour no longer answers the scrapes of Prometheus.',
    runbook:
      'If the machine was removed on purpose, the alert ends after an hour. Otherwise start Weir on it, or restore its network. The other machines serve all requests.',
  },
  WeirIngestErrors: {
    expr: promql`sum by (job, instance) (rate(${'weir_requests_total'}{route=~"/in/.*",status=~"5.."}[5m])) / sum by (job, instance) (rate(${'weir_requests_total'}{route=~"/in/.*"}[5m])) > 0.01`,
    forMinutes: 5,
    severity: 'critical',
    summary: 'More than 1 % of the webhook requests are answered 5xx.',
    runbook:
      'See weir_problems_total by code, and request_unserved in the log. database_unavailable: see WeirDatabaseDown. queue_full or memory_full: see WeirQueueNearlyFull and WeirRequestsShed. secret_unavailable: see WeirSecretUnavailable. Not every sender retries: GitHub does not.',
  },
  WeirDatabaseDown: {
    ...about('database'),
    // With cells, the label cell of the alert names its cell.
    expr: promql`${'weir_database_up'} < ignoring (cell) group_left () ${'weir_processes'}`,
    forMinutes: 1,
  },
  WeirQueueNearlyFull: {
    expr: promql`${'weir_queue_fill_ratio'} > 0.8`,
    forMinutes: 1,
    severity: 'warning',
    summary:
      'The queue of events that wait for their commit is more than 80 % full; when it is full, requests are answered 503.',
    runbook:
      'Commits are slower than the arriving events. Compare weir_commit_seconds with its usual value: if it has risen, look for a slow disk, a checkpoint or a slow synchronous standby of Postgres. Otherwise raise WORKERS, or limit the senders (weir_requests_total). QUEUE_EVENTS_MAX bounds memory, and a larger value only delays the refusals.',
  },
  WeirRequestsShed: {
    expr: promql`sum by (job, instance, code) (rate(${'weir_problems_total'}{code=~"${'queue_full'}|${'memory_full'}|${'client_busy'}|${'verification_unavailable'}"}[5m])) > 0`,
    forMinutes: 5,
    severity: 'warning',
    summary: 'Requests are refused because a limit of the process is reached.',
    runbook:
      'The label code names the limit. queue_full: see WeirQueueNearlyFull. memory_full: BODY_BYTES_HELD_MAX, or slow uploads without a buffering proxy. client_busy: one client address exceeds CLIENT_REQUESTS_MAX; set TRUSTED_PROXIES if it is a proxy. verification_unavailable: the HMAC threads are too few (THREADS) or hang (WeirThreadFailures).',
  },
  WeirRejections: {
    ...about('rejections'),
    expr: promql`sum by (job, instance) (rate(${'weir_rejections_total'}[5m])) * 60 > ${rejections.reported.threshold}`,
    forMinutes: 10,
  },
  WeirDeliveriesWaiting: {
    ...about('pending'),
    expr: promql`max by (job, agent, agent_name) (${'weir_deliveries_oldest_pending_seconds'}) > ${pending.threshold}`,
    forMinutes: 5,
  },
  WeirDeadLetters: {
    ...about('dead_letters'),
    expr: promql`sum by (job, agent, agent_name) (increase(${'weir_deliveries_settled_total'}{outcome="dead"}[${DEAD_NEW_MINUTES}m])) > 0`,
    forMinutes: 0,
  },
  WeirDeliveriesUnhandled: {
    expr: promql`increase(${'weir_deliveries_unhandled_total'}[1h]) > 0`,
    forMinutes: 0,
    severity: 'critical',
    summary: 'Retention has removed deliveries that no agent had settled.',
    runbook:
      'deliveries_unhandled in the log has their number. An agent has been behind for RETENTION_DAYS: see weir_deliveries_pending by agent. Raise RETENTION_DAYS until it has caught up, or revoke an agent that is no longer used.',
  },
  WeirProcessRestarts: {
    expr: promql`increase(${'weir_process_restarts_total'}[15m]) > 3`,
    forMinutes: 0,
    severity: 'critical',
    summary: 'Serving processes exit repeatedly and are replaced.',
    runbook: `process_exited in the log has the exit code or signal, and process_output the last output of the process. SIGKILL usually means that the system was out of memory: compare weir_resident_bytes with the memory of the machine. ${LOG}`,
  },
  WeirMemoryReplacements: {
    expr: promql`increase(${'weir_processes_replaced_for_memory_total'}[1h]) > 3`,
    forMinutes: 0,
    severity: 'warning',
    summary: 'Processes are replaced repeatedly because they use more than PROCESS_MEMORY_MAX.',
    runbook:
      'memory_replaced in the log names them. If weir_body_bytes_held is high at these times, the limit is too low for the load. Otherwise memory leaks: report it with the graph of weir_resident_bytes.',
  },
  WeirRestartFailed: {
    expr: promql`increase(${'weir_rolling_restarts_total'}{outcome="failed"}[15m]) > 0`,
    forMinutes: 0,
    severity: 'warning',
    summary: 'A rolling restart was refused or aborted; the old processes continue to serve.',
    runbook:
      'restart_failed in the log has the reason: an invalid or fixed setting, a missing migration (weir migrate), or a new version that does not start. Fix it, and run weir reload.',
  },
  WeirLogLinesDropped: {
    expr: promql`increase(${'weir_log_lines_dropped_total'}[5m]) > 0`,
    forMinutes: 0,
    severity: 'warning',
    summary: 'Log lines are dropped because the reader of the log does not read.',
    runbook:
      'Weir continues to serve without the log. Restart or fix the program that reads its standard output (the container runtime, journald, a log shipper), and check that its disk is not full.',
  },
  WeirSpoolWaiting: {
    ...about('spool'),
    expr: promql`${'weir_spool_oldest_seconds'} > 0`,
    forMinutes: 5,
  },
  WeirDiskLow: {
    ...about('disk'),
    expr: promql`${'weir_disk_free_bytes'} < ${diskPlaces.data} or ${'weir_disk_free_bytes'}{place="postgres"} < ${diskPlaces.postgres} or (predict_linear(${'weir_disk_free_bytes'}[1d], ${FULL_WITHIN_DAYS} * 86400) < 0 and ${'weir_disk_free_bytes'} offset 6h)`,
    forMinutes: 10,
  },
  WeirSpoolFilesKept: {
    expr: promql`${'weir_spool_files_kept'} > 0`,
    forMinutes: 1,
    severity: 'warning',
    summary: 'The spool keeps events that could not be stored.',
    runbook:
      'refused: the database refuses the content of an event (spool_event_refused in the log). damaged: the bytes of a file have changed on the disk (spool_damaged); check the disk. The other events of the file are stored. Move the files out of INGEST_SPOOL_DIR when you have looked at them.',
  },
  WeirRateLimitDegraded: {
    ...about('rate_limits'),
    expr: promql`${'weir_rate_limit_degraded'} > 0`,
    forMinutes: 2,
  },
  WeirSecretUnavailable: {
    expr: promql`${'weir_webhooks_secret_unavailable'} > 0`,
    forMinutes: 1,
    severity: 'critical',
    summary: 'The secret of a webhook cannot be decrypted; its requests are answered 503.',
    runbook:
      'secret_unreadable in the log names the webhook. Set the key that encrypted it as SECRETS_KEY_PREVIOUS and restart, or give the webhook a new secret with weir webhook rotate.',
  },
  WeirThreadFailures: {
    expr: promql`increase(${'weir_thread_failures_total'}[15m]) > 3`,
    forMinutes: 0,
    severity: 'warning',
    summary: 'HMAC threads exit or hang repeatedly.',
    runbook:
      'thread_failed in the log has the reason. A hang on a machine without a fault means that it has too little CPU time: lower WORKERS or THREADS, or raise HMAC_TIMEOUT_MS.',
  },
  WeirEventLoopLag: {
    expr: promql`${'weir_event_loop_lag_seconds'} > 0.5`,
    forMinutes: 5,
    severity: 'warning',
    summary: 'The event loop of a process is blocked for more than half a second at a time.',
    runbook:
      'The machine has too little CPU time, or swaps: compare process_cpu_seconds_total with its cores, and weir_resident_bytes with its memory. request_slow in the log names the requests.',
  },
  WeirCommitsSlow: {
    expr: promql`histogram_quantile(0.99, sum by (job, instance, le) (rate(${'weir_commit_seconds_bucket'}[5m]))) > 1`,
    forMinutes: 10,
    severity: 'warning',
    summary: 'One in 100 commits of events takes longer than a second.',
    runbook:
      'Look at the disk latency of Postgres, its checkpoints (log_checkpoints), and its synchronous standby. A commit that takes longer than COMMIT_TIMEOUT_MS is given up, and its senders get 503.',
  },
  WeirPoolExhausted: {
    expr: promql`histogram_quantile(0.99, sum by (job, instance, le) (rate(${'weir_pool_wait_seconds_bucket'}[5m]))) > 1`,
    forMinutes: 10,
    severity: 'warning',
    summary: 'Queries wait longer than a second for a connection of the pool.',
    runbook:
      'Raise DB_POOL_MAX (weir doctor shows how many connections the server has left), or find the slow queries in pg_stat_activity.',
  },
  WeirPartitionsMissing: {
    expr: promql`${'weir_partitions_ahead'} < ${PARTITIONS_AHEAD_MIN}`,
    forMinutes: 10,
    severity: 'critical',
    summary: `Fewer than ${PARTITIONS_AHEAD_MIN} of the next days have partitions; without a partition for the day, no event is stored.`,
    runbook:
      'partitions_failed in the log has the reason: usually a lock that another session holds (a backup, an open transaction), or a role without the right to create tables. Weir tries again every minute.',
  },
  WeirMaintenanceLate: {
    expr: promql`time() - (${'weir_maintenance_timestamp_seconds'} > 0 or ${'process_start_time_seconds'}) > 10800`,
    forMinutes: 10,
    severity: 'warning',
    summary: 'The hourly maintenance has not succeeded for 3 hours; old events and deliveries stay.',
    runbook:
      'maintenance_failed in the log has the reason. weir doctor checks locks, autovacuum and the schema. Watch weir_database_bytes and the disk until it has succeeded.',
  },
} as const satisfies Record<string, Rule>;

export type RuleName = keyof typeof ruleTable;

/**
 * The Prometheus rule file, as YAML. Strings are in double quotes, which JSON and YAML escape alike.
 * @param publicUrl PUBLIC_URL: the rules then link to the guide of the installation; undefined: without links
 */
export function prometheusRules(publicUrl?: URL): string {
  const rules = Object.entries<Rule>(ruleTable).map(([name, { expr, forMinutes, severity, summary, runbook }]) =>
    [
      `      - alert: ${name}`,
      `        expr: ${JSON.stringify(expr)}`,
      `        for: ${forMinutes}m`,
      '        labels:',
      `          severity: ${severity}`,
      '        annotations:',
      `          summary: ${JSON.stringify(summary)}`,
      `          runbook: ${JSON.stringify(runbook)}`,
      ...(publicUrl === undefined
        ? []
        : // The row of the alert in the guide, which anyone can read who reaches the pages.
          [`          runbook_url: ${JSON.stringify(new URL(`/docs/reference#${name}`, publicUrl))}`]),
      '',
    ].join('\n'),
  );
  return `groups:\n  - name: weir\n    rules:\n${rules.join('')}`;
}
