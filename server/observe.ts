/** Turns what happens in the parts of a process into metrics and log lines; the parts know neither. */
import { Throttle } from './core/throttle.ts';
import type { Exchange } from './http/exchange.ts';
import { type Stage, stageNames } from './http/stages.ts';
import type { DedupeObserver } from './ingest/dedupe.ts';
import type { PersistObserver } from './ingest/persist.ts';
import type { RejectionObserver } from './ingest/rejections.ts';
import type { VerifyObserver } from './ingest/verify.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';

export interface Observers {
  finished(exchange: Exchange): void;
  failed(exchange: Exchange, error: unknown): void;
  databaseError(error: Error): void;
  secretUnreadable(webhookId: string): void;
  writer: PersistObserver;
  dedupeWriter: DedupeObserver;
  verifier: VerifyObserver;
  rejections: RejectionObserver;
}

/** Routes whose steps are in weir_stage_seconds. */
const STAGED_PREFIX = '/in/';

/** Between two lines of `database_refused`, for all requests of a process together. */
const REFUSED_EVERY_MS = 1_000;

/** @param slowMs REQUEST_LOG_SLOW_MS; 0 turns the slow log off. */
export function createObservers(metrics: Metrics, log: Log, slowMs: number): Observers {
  const logsRequests = log.enabled('request');
  const refusals = new Throttle<Record<string, unknown>>(REFUSED_EVERY_MS, (fields, leftOut) =>
    log('database_refused', { ...fields, left_out: leftOut }),
  );
  const commits: Omit<PersistObserver, 'connection'> = {
    committed: (events, ms) => metrics.committed(events, ms / 1000),
    inDoubt(events, found) {
      metrics.inDoubt(events, found);
      log('commit_in_doubt', { events, found });
    },
    refused: (events, sqlState, message) => refusals.add({ events, sql_state: sqlState, reason: message }),
  };
  return {
    finished(exchange) {
      const { clock, route } = exchange;
      if (exchange.aborted) metrics.aborted(route);
      else {
        metrics.request(route, exchange.status, clock.totalMs / 1000);
        if (exchange.problemCode !== null) metrics.problem(exchange.problemCode);
      }
      if (route.startsWith(STAGED_PREFIX))
        for (let stage = 0; stage < clock.ms.length; stage++)
          if (clock.ms[stage]! > 0) metrics.stage(stage as Stage, clock.ms[stage]! / 1000);
      if (logsRequests) log('request', describe(exchange));
      if (slowMs > 0 && clock.totalMs >= slowMs) log('request_slow', describe(exchange));
    },
    failed(exchange, error) {
      log('request_failed', { ...describe(exchange), err: error });
    },
    databaseError: (error) => log('database_error', { reason: error.message.trim() }),
    secretUnreadable: (webhookId) => log('secret_unreadable', { webhook_id: webhookId }),
    writer: {
      ...commits,
      connection: (up, reason) => (up ? log('database_up') : log('database_down', { reason })),
    },
    dedupeWriter: { ...commits, repeated: (events) => metrics.repeated(events) },
    verifier: {
      batch: (items) => metrics.verifyBatch(items),
      threadFailed(error) {
        metrics.threadFailed();
        log('thread_failed', { reason: error.message });
      },
    },
    rejections: {
      passedOver: (why) => metrics.rejected(why, 1),
      stored(reasons) {
        metrics.rejected('stored', reasons.length);
        for (const reason of reasons) metrics.rejectionStored(reason);
      },
      failed(samples, error) {
        metrics.rejected('failed', samples);
        log('rejections_lost', { rejections: samples, reason: error.message });
      },
    },
  };
}

/** What a log line says of a request: never a header, never a body. */
function describe(exchange: Exchange): Record<string, unknown> {
  const { ms, totalMs } = exchange.clock;
  const reached = stageNames.flatMap((name, stage) => (ms[stage]! > 0 ? [[name, rounded(ms[stage]!)]] : []));
  return {
    request_id: exchange.requestId,
    method: exchange.method,
    path: exchange.path,
    status: exchange.aborted ? 'aborted' : exchange.status,
    client: exchange.client.address,
    total_ms: rounded(totalMs),
    slowest_stage: stageNames[ms.indexOf(Math.max(...ms))],
    stages_ms: Object.fromEntries(reached),
  };
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}
