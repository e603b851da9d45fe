/** The table of log events. The guide's table is generated from it. */
import type pino from 'pino';

const debug = (meaning: string) => ['debug', meaning] as const;
const info = (meaning: string) => ['info', meaning] as const;
const warn = (meaning: string) => ['warn', meaning] as const;
const error = (meaning: string) => ['error', meaning] as const;
const fatal = (meaning: string) => ['fatal', meaning] as const;

/** Level and meaning of each log event. The name is the field `event` of the line. */
export const logEvents = {
  starting: info('Weir starts'),
  serving_as_root: warn(
    'SERVE_AS_ROOT is true and root started Weir: a fault in a process that serves senders is a fault of root',
  ),
  setting_ignored: warn(
    'the variable of a setting has a value that Kubernetes sets for a Service of that name; it is ignored: set enableServiceLinks to false',
  ),
  setting_unknown: warn(
    'a variable looks like a setting and is not one: the default applies. `meant`: the setting whose name differs by one character',
  ),
  orphans_awaited: warn(
    'PORT is held by processes of a Weir whose primary was killed: the start waits until they end, at most DRAIN_SECONDS',
  ),
  database_starting: info('the embedded database is being created or started'),
  database_start_failed: error(
    'the embedded database ended and does not start, as on a full disk; Weir tries again, with pauses of up to 15 seconds. Logged once for each reason',
  ),
  database_awaited: error(
    'Postgres is away at the start: Weir tries again until it answers; requests are answered 503, or spooled. Logged once a minute',
  ),
  rate_limit_store_awaited: warn(
    'the shared rate-limit store is away at the start: Weir tries again for RATE_LIMIT_WAIT_SECONDS, then refuses to start; with RATE_LIMIT_REQUIRED=false it does not wait',
  ),
  migrated: info('a migration was applied'),
  migration_blocked: warn(
    'a migration waits for the lock in this line, held by a backup for example. It was rolled back, so that ingest does not wait behind it, and is tried again every 10 seconds',
  ),
  wal_files_made: info('the embedded database got WAL files in advance, which it uses again and again'),
  wal_files_failed: warn(
    'the embedded database got no WAL files in advance: commits wait while it makes one. The next start tries again',
  ),
  partitions_created: info('partitions for the next days were created'),
  partitions_dropped: info('partitions older than RETENTION_DAYS were dropped'),
  days_indexed: info('days that are over got an index of their events by webhook'),
  partition_busy: warn(
    'an old partition cannot be dropped while an open transaction, such as a backup, has read it; each hourly run tries again. Logged once',
  ),
  archive_failed: error(
    'a day could not be written to ARCHIVE_DIR; it is kept, and the next run within an hour tries again',
  ),
  days_kept: info('days older than RETENTION_DAYS are kept for their undelivered events, see KEEP_UNDELIVERED_DAYS'),
  deliveries_expiring: warn('retention removes undelivered events within a day'),
  events_expired: info('events past the retention_days of their webhook were deleted, with their deliveries'),
  deliveries_unhandled: warn('deliveries were deleted with their events before an agent settled them'),
  dedupe_keys_expired: info('expired dedupe keys were deleted'),
  audit_head: info(
    'the newest entry of the audit log; weir audit verify --head HASH checks that the chain still contains it',
  ),
  spans_failed: warn(
    'spans were not taken by the collector of OTEL_EXPORTER_OTLP_ENDPOINT, and are dropped; logged once a minute',
  ),
  audit_failed: error('a tool call of an AI agent was done, but is missing in the audit log'),
  partitions_failed: error('missing partitions could not be created; the next attempt is within a minute'),
  maintenance_failed: error(
    'old rows could not be deleted, or last leases could not be ended; the next run tries again',
  ),
  last_leases_expired: info(
    'deliveries became dead letters, because their last lease expired without an acknowledgement',
  ),
  temporary_agents_expired: info('agents of weir listen were removed an hour after they were last seen'),
  alert_began: warn('an alert began; weir alert list shows it'),
  alert_ended: info('an alert ended'),
  alert_sent: info('a request to ALERT_URL about an alert was answered with 2xx'),
  alert_send_failed: warn('a request to ALERT_URL failed; it is repeated with the same webhook-id'),
  alert_given_up: error('a request to ALERT_URL was given up after its last attempt, or because it is too old'),
  outage_not_saved: error('an outage could not be written to DATA_DIR; it is kept in memory'),
  alerts_failed: error('alerts could not be evaluated or sent; the next attempt is within seconds'),
  commands_unavailable: error(
    'the socket for commands in DATA_DIR cannot be used; webhooks are received, and commands work with --url',
  ),
  job_done: info('a job that replays events is done'),
  job_failed: error('a job failed; without final, or if that is false, it is tried again'),
  jobs_paused: warn('jobs do not run while the database takes no writes; they continue by themselves'),
  listening: info('all processes listen'),
  setup_address: warn('no administrator exists yet: the first person to open this address becomes the administrator'),
  sessions_expired: info('sessions that had ended were deleted'),
  process_up: info('a process is ready'),
  process_exited: error('a process ended unexpectedly, hung, or was not ready in time; it is replaced'),
  process_output: warn('a process wrote output that is not a log line; lines written together are one'),
  processes_changed: info('the configured number of processes changed, by a signal or by WORKERS'),
  restarting: info('a rolling restart has started'),
  settings_changed: info('a rolling restart found changed settings; new processes use them'),
  settings_unchangeable: info(
    'a rolling restart could change no setting: none comes from .env, and the environment of a process is fixed at its start. A container gets other settings when it is created again',
  ),
  restarted: info('a rolling restart is complete: every process is new'),
  restart_failed: error('a rolling restart was refused or aborted; the remaining processes continue to serve'),
  memory_replaced: warn('a process used more than PROCESS_MEMORY_MAX and was replaced, without a failed request'),
  memory_replace_failed: error(
    'a process uses more than PROCESS_MEMORY_MAX and could not be replaced; it continues to serve',
  ),
  crash_loop: fatal('ten consecutive processes ended before they served; Weir stops'),
  service_report_failed: warn(
    'systemd could not be informed of the state of Weir by systemd-notify; logged once until it works again',
  ),
  draining: info('Weir is stopping: accepted requests are answered first'),
  drain_timeout: warn('requests were still open at the end of DRAIN_SECONDS'),
  stop_failed: error('a step of the stop failed; the other steps were taken, and the exit code is 1'),
  stopped: info('Weir has stopped'),
  request: debug('a request was answered'),
  request_slow: warn(
    'a request took REQUEST_LOG_SLOW_MS or longer; at most 10 lines a second for each process, `left_out` counts the others',
  ),
  request_failed: error('a request failed because of a bug; at most 10 lines a second, left_out counts the others'),
  request_unserved: warn('a valid request was answered 5xx; at most 10 lines a second, left_out counts the others'),
  connections_limit: warn(
    'a connection was closed without a response, because the process has CONNECTIONS_MAX of them (limit process) or the client address CLIENT_CONNECTIONS_MAX (limit client); one line a second, left_out counts the others',
  ),
  descriptors_short: error(
    'a step failed because the process or the machine has no file descriptor left; one line a second. The process continues to serve',
  ),
  request_refused: info('a request was answered 4xx; a sample of one line a second, left_out counts the others'),
  database_up: info('the commit connection is up'),
  database_down: error(
    'every connection for commits was lost; requests are answered 503, or spooled, until one is restored',
  ),
  database_error: warn('an idle database connection was lost'),
  database_refused: error(
    'the database refused events; one line a second with the ids of up to 10 requests, left_out counts the others',
  ),
  commit_in_doubt: warn('the connection was lost in the middle of a commit; its events were looked up'),
  spooling: warn('events are written to the spool, because the database does not commit them'),
  spool_failed: error('the spool cannot be written: while Postgres is away, requests are answered 503'),
  webhooks_not_saved: error(
    'the copy of the webhooks in DATA_DIR cannot be written: a start while Postgres is away would use an older one, or refuse events',
  ),
  spool_waiting: warn('the spool cannot be drained yet; it is tried again until it succeeds'),
  spool_drained: info('the events of the spool are in the database'),
  spool_event_refused: error(
    'the database refuses a spooled event for its content; it is kept in the spool, in a file that ends in .refused',
  ),
  spool_damaged: error(
    'a file of the spool has damaged bytes inside; its other events are in the database, and the file is kept',
  ),
  cell_away: error('a cell cannot be used; its webhooks are refused or spooled'),
  cell_back: info('a cell can be used again'),
  listener_up: info('the listener for webhook changes is connected'),
  listener_down: warn('the listener for webhook changes is disconnected; processes check with the database'),
  thread_failed: error('an HMAC thread exited or hung; the requests of its batch were retried one by one'),
  agent_client_differs: info('an agent opened a session with the client of another release'),
  filter_broken: error(
    'the stored filter of a subscription is not valid in this version; all events are delivered until it is changed',
  ),
  filter_suspended: warn(
    'the filter of a subscription took too long on several events and is suspended until the time given; all events are delivered',
  ),
  rejections_lost: warn('samples of rejected signatures could not be diagnosed or stored'),
  rejections_expired: info('old rejections were deleted'),
  secrets_key_replaced: info(
    'this is the first start with a new SECRETS_KEY; agent sessions of the previous key stay valid for 15 minutes',
  ),
  secret_unreadable: error('neither SECRETS_KEY nor SECRETS_KEY_PREVIOUS decrypts a stored webhook secret'),
  rate_limit_store: warn('the shared rate-limit store is unavailable; requests are allowed uncounted'),
  rate_limit_store_up: info(
    'the shared rate-limit store has been available for 10 s; one line for an outage, with its interruptions and uncounted requests',
  ),
  identity_provider_up: info('the OpenID Connect provider is available'),
  identity_provider_down: warn('the OpenID Connect provider is unavailable; requests that need it are answered 503'),
  administrator_missing: warn(
    'the OpenID Connect provider removed the role of the last administrator: assign it to a user there, or run weir user set-role EMAIL administrator',
  ),
  identity_refused: warn('a hosted sign-in failed: the provider or the browser sent invalid data'),
  metrics_failed: warn('the metrics could not be collected'),
  crash: fatal('a bug; the process ends'),
} as const satisfies Record<string, readonly [pino.Level, string]>;

export type LogEvent = keyof typeof logEvents;
