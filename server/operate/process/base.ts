/** Dependencies that all parts of a process share. */

import { openLimiter } from '../../base/ratelimit/open.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { Metrics } from '../../base/telemetry/metrics.ts';
import { openSpans } from '../../base/telemetry/spans.ts';
import { explainCommitFailure } from '../../manage/conditions/commit-failure.ts';
import { Changes } from '../../store/announce.ts';
import { Cells } from '../../store/cells/cells.ts';
import { copyToAll } from '../../store/cells/copy.ts';
import { openDatabase } from '../../store/connect/pool.ts';
import { derivedKeys } from '../../store/secrets/keys.ts';
import type { StartOrder } from '../primary/messages.ts';
import { createObservers } from './observe.ts';

export type Base = Awaited<ReturnType<typeof openBase>>;

/** Resolves also while the database is down. Rejects if the rate limiter cannot be opened. */
export async function openBase(order: StartOrder, log: Log) {
  const { settings, conninfo, keys } = order;
  let isUsable = order.awaitsDatabase !== true;
  const usesDatabase = () => isUsable;
  const useDatabase = () => {
    isUsable = true;
  };
  const metrics = new Metrics();
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = settings;
  const spans =
    endpoint === undefined
      ? null
      : await openSpans({
          endpoint,
          headers: settings.OTEL_EXPORTER_OTLP_HEADERS ?? null,
          serviceName: settings.OTEL_SERVICE_NAME,
          sampler: settings.OTEL_TRACES_SAMPLER,
          ratio: settings.OTEL_TRACES_SAMPLER_ARG,
          count: (outcome, spans) => metrics.add('weir_spans_total', spans, { outcome }),
          onFailed: (reason, leftOut) => log('spans_failed', { reason, left_out: leftOut }),
        });
  const observe = createObservers(metrics, log, settings.REQUEST_LOG_SLOW_MS, spans);
  const open = (conninfo: string) =>
    openDatabase(conninfo, {
      connectionsMax: settings.DB_POOL_MAX,
      applicationName: 'weir',
      isUsable: usesDatabase,
      onError: observe.databaseError,
      onWaited: (ms) => metrics.poolWaited(ms / 1000),
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
