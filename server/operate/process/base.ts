/** Dependencies that all parts of a process share, and the observers that turn their events into metrics and log lines. */
import type { Client } from '../../base/http/clients.ts';
import type { ConnectionRefusal } from '../../base/http/connections.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { openLimiter } from '../../base/ratelimit/open.ts';
import type { Log } from '../../base/telemetry/log.ts';
import type { LogEvent } from '../../base/telemetry/log-events.ts';
import { cellLabels } from '../../base/telemetry/metric-table.ts';
import { Metrics } from '../../base/telemetry/metrics.ts';
import { openSpans, type Spans } from '../../base/telemetry/spans.ts';
import { type Stage, stageNames } from '../../base/telemetry/stages.ts';
import { Throttle } from '../../base/telemetry/throttle.ts';
import { traceparentOf } from '../../base/telemetry/trace.ts';
import { explainCommitFailure } from '../../manage/conditions/commit-failure.ts';
import type { ProblemCode } from '../../model/errors.ts';
import type { StoreObserver } from '../../receive/ingest/cell-stores.ts';
import type { VerifyObserver } from '../../receive/ingest/verify.ts';
import type { RejectionObserver } from '../../receive/rejections/sampler.ts';
import { Cells } from '../../store/cells/cells.ts';
import { copyToAll } from '../../store/cells/copy.ts';
import { Changes } from '../../store/connect/listen.ts';
import { openDatabase } from '../../store/connect/pool.ts';
import { derivedKeys } from '../../store/secrets/keys.ts';
import type { StartOrder } from '../primary/messages.ts';

export type Base = Awaited<ReturnType<typeof openBase>>;

/** Opens the dependencies. Resolves also while the database is down. Rejects if the rate limiter cannot be opened. */
export async function openBase(order: StartOrder, log: Log) {
  const { settings, conninfo, keys } = order;
  let isUsable = order.awaitsDatabase !== true;
  const usesDatabase = () => isUsable;
  const useDatabase = () => {
    isUsable = true;
  };
  const metrics = new Metrics();
  const spans = await openSpans(
    settings,
    (outcome, spans) => metrics.add('weir_spans_total', spans, { outcome }),
    (reason, leftOut) => log('spans_failed', { reason, left_out: leftOut }),
  );
  const observe = createObservers(metrics, log, settings.REQUEST_LOG_SLOW_MS, spans);
  const open = (conninfo: string) =>
    openDatabase(conninfo, {
      connectionsMax: settings.DB_POOL_MAX,
      applicationName: 'weir',
      isUsable: usesDatabase,
      onError: observe.databaseError,
      onWaited: (ms) => metrics.poolWait.observe(ms / 1000),
    });
  const home = open(conninfo);
  const cells = new Cells({
    home,
    conninfo,
    keys: derivedKeys(keys, 'cells'),
    open,
    onTrouble: ({ number, name, failure }, trouble) => {
      if (trouble === null) return log('cell_back', { cell: number, name });
      const explained = failure && explainCommitFailure(failure);
      log('cell_away', {
        cell: number,
        name,
        reason: explained === null ? trouble : `${explained.finding} (${explained.said})`,
      });
    },
  });
  cells.watch();
  const changes = new Changes(home, () => copyToAll(cells));
  const limiter = await openLimiter(settings, log, {
    requireStore: false,
    onUncounted: ({ name }) => metrics.add('weir_requests_uncounted_total', 1, { limit: name }),
  });
  return {
    ...order,
    log,
    metrics,
    observe,
    /** Null: nothing is traced. */
    spans,
    /** Statements on events and deliveries run in their cells. */
    database: cells.database,
    cells,
    /** False until the primary has prepared the database, if that takes long. */
    usesDatabase,
    useDatabase,
    /** Makes changes and notifies every process. */
    changes,
    limiter,
  };
}

/** Routes with stage times in weir_stage_seconds. */
const STAGED_PREFIX = '/in/';

/** Limits on log lines about failed and slow requests, for the whole process. */
const EVERY_MS = 1_000;
const REQUEST_LINES_MAX = 10;
const REQUEST_IDS_MAX = 10;
/** Spooling that begins again after this pause is logged again. */
const SPOOLING_PAUSE_MS = 10_000;

/** @param slowMs REQUEST_LOG_SLOW_MS; 0 turns the slow log off. @param spans null: nothing is traced */
function createObservers(metrics: Metrics, log: Log, slowMs: number, spans: Spans | null) {
  const logsRequests = log.enabled('request');
  let spooledMs = Number.NEGATIVE_INFINITY;
  /** @param linesMax lines in a second; those left out are counted */
  const throttled = <Report>(event: LogEvent, fieldsOf: (report: Report) => Record<string, unknown>, linesMax = 1) =>
    new Throttle<Report>(
      EVERY_MS,
      (report, leftOut) => log(event, { ...fieldsOf(report), left_out: leftOut }),
      linesMax,
    );
  const refusals = throttled('database_refused', (fields: Record<string, unknown>) => fields);
  const refusedConnections = throttled('connections_limit', (fields: Record<string, unknown>) => fields);
  const unserved = throttled('request_unserved', describe, REQUEST_LINES_MAX);
  const failures = throttled(
    'request_failed',
    ({ exchange, error }: { exchange: Exchange; error: unknown }) => ({ ...describe(exchange), err: error }),
    REQUEST_LINES_MAX,
  );
  const refusedRequests = throttled('request_refused', describe);
  const slow = throttled('request_slow', describe, REQUEST_LINES_MAX);
  const problem = (exchange: Exchange, code: ProblemCode) => {
    metrics.add('weir_problems_total', 1, { code });
    // A bug has its own log line, with its source position.
    if (exchange.status >= 500 && code !== 'internal') unserved.add(exchange);
    else if (exchange.status < 500) refusedRequests.add(exchange);
  };
  return {
    finished(exchange: Exchange) {
      const { clock, route } = exchange;
      if (spans !== null && route.startsWith(STAGED_PREFIX)) spans.finished(exchange);
      if (exchange.aborted) metrics.add('weir_requests_aborted_total', 1, { route });
      else {
        metrics.request(route, exchange.status, clock.totalMs / 1000);
        if (exchange.problemCode !== null) problem(exchange, exchange.problemCode);
      }
      if (route.startsWith(STAGED_PREFIX))
        for (let stage = 0; stage < clock.ms.length; stage++)
          if (clock.ms[stage]! > 0) metrics.stage(stage as Stage, clock.ms[stage]! / 1000);
      if (logsRequests) log('request', describe(exchange));
      if (slowMs > 0 && clock.totalMs >= slowMs) slow.add(exchange);
    },
    failed(exchange: Exchange, error: unknown) {
      failures.add({ exchange, error });
    },
    connectionRefused(limit: ConnectionRefusal, { address }: Client) {
      metrics.add('weir_connections_refused_total', 1, { limit });
      refusedConnections.add({ limit, client: address });
    },
    databaseError: (error: Error) => log('database_error', { reason: error.message.trim() }),
    secretUnreadable: (webhookId: string) => log('secret_unreadable', { webhook_id: webhookId }),
    /** @param cell its number; 0: home */
    store: (cell: number, labels = cellLabels(cell)): StoreObserver => ({
      committed(events, ms, rows) {
        metrics.committed(events, ms / 1000, cell);
        spans?.committed(rows, ms, cell);
      },
      inDoubt(events, found) {
        metrics.inDoubt(events, found, cell);
        log('commit_in_doubt', { events, found });
      },
      refused: (rows, sqlState, message) =>
        refusals.add({
          events: rows.length,
          sql_state: sqlState,
          reason: message,
          request_ids: [...new Set(rows.flatMap(({ requestId }) => requestId ?? []))].slice(0, REQUEST_IDS_MAX),
        }),
      repeated: (events) => metrics.add('weir_events_duplicate_total', events, labels),
      connection: (up, reason) => (up ? log('database_up') : log('database_down', { reason })),
    }),
    /** Called after events were spooled. */
    spooled(events: number) {
      metrics.add('weir_spool_events_written_total', events);
      const nowMs = performance.now();
      if (nowMs - spooledMs > SPOOLING_PAUSE_MS) log('spooling');
      spooledMs = nowMs;
    },
    verifier: {
      batch: (items) => metrics.verifyBatches.observe(items),
      threadFailed(error) {
        metrics.add('weir_thread_failures_total');
        log('thread_failed', { reason: error.message });
      },
    } satisfies VerifyObserver,
    rejections: {
      passedOver: (outcome, samples) => metrics.add('weir_rejections_total', samples, { outcome }),
      stored(reasons) {
        metrics.add('weir_rejections_total', reasons.length, { outcome: 'stored' });
        for (const reason of reasons) metrics.add('weir_rejections_stored_total', 1, { reason });
      },
      failed(samples, error) {
        metrics.add('weir_rejections_total', samples, { outcome: 'failed' });
        log('rejections_lost', { rejections: samples, reason: error.message });
      },
    } satisfies RejectionObserver,
  };
}

/** The log fields of a request. Traceparent is the only header; the body is never included. */
function describe(exchange: Exchange): Record<string, unknown> {
  const traceparent = traceparentOf(exchange.header('traceparent'));
  const { ms, totalMs } = exchange.clock;
  const reached = stageNames.flatMap((name, stage) => (ms[stage]! > 0 ? [[name, rounded(ms[stage]!)]] : []));
  return {
    request_id: exchange.requestId,
    method: exchange.method,
    path: exchange.path,
    status: exchange.aborted ? 'aborted' : exchange.status,
    ...(exchange.problemCode === null ? {} : { code: exchange.problemCode }),
    client: exchange.client.address,
    ...(exchange.route.startsWith(STAGED_PREFIX) ? { webhook_id: exchange.parameters[0]!.toLowerCase() } : {}),
    ...(exchange.eventId === null ? {} : { event_id: exchange.eventId }),
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(exchange.traceId === null ? {} : { trace_id: exchange.traceId }),
    total_ms: rounded(totalMs),
    slowest_stage: stageNames[ms.indexOf(Math.max(...ms))],
    stages_ms: Object.fromEntries(reached),
  };
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}
