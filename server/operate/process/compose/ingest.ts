/** The parts of a process that take webhooks in. */

import type { Exchange } from '../../../base/http/exchange.ts';
import { cellLabels } from '../../../base/telemetry/metric-table.ts';
import { statusOfRefusal } from '../../../model/history.ts';
import { refusesBatches, storeBatch } from '../../../receive/ingest/batch.ts';
import { CellStores } from '../../../receive/ingest/cell-stores.ts';
import { CommitHealth } from '../../../receive/ingest/commit-health.ts';
import { EventStore } from '../../../receive/ingest/event-store.ts';
import { createHandshake } from '../../../receive/ingest/handshake.ts';
import { createIngest, type IngestParts } from '../../../receive/ingest/ingest.ts';
import { IngestCounts } from '../../../receive/ingest/ingest-counts.ts';
import { RowMaker } from '../../../receive/ingest/rows.ts';
import { createSignatureCheck } from '../../../receive/ingest/signature.ts';
import { SPOOL_AFTER_MS } from '../../../receive/ingest/spooled-store.ts';
import { storeSingle } from '../../../receive/ingest/store.ts';
import { UnknownUrls } from '../../../receive/ingest/unknown-urls.ts';
import { Verifier } from '../../../receive/ingest/verify.ts';
import { isCurrent, type Webhook, type WebhookSource, webhookDirectory } from '../../../receive/ingest/webhook.ts';
import { WriteBehind } from '../../../receive/ingest/write-behind.ts';
import type { Cell } from '../../../store/cells/cell.ts';
import { type CommitFailure, probeCommit } from '../../../store/commit-probe.ts';
import { PartitionRepair } from '../../../store/partitions.ts';
import { copyOnNode } from '../../../store/queries/cells/citus.ts';
import { addHistory } from '../../../store/queries/webhooks/history.ts';
import { addSecretUses } from '../../../store/queries/webhooks/secrets.ts';
import { writeLastEvents } from '../../../store/queries/webhooks/webhooks.ts';
import { derivedKeys } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';
import type { LatencyCounts } from '../latency-counts.ts';
import { composeSpool } from './spool.ts';

const INGEST_PREFIX = '/in/';
/** Unknown URLs that a process reports to the primary each second. */
const UNKNOWN_URLS_REPORTED = 10;
/** Counts of the history by status. */
const refusals = new Map(
  Object.entries(statusOfRefusal).map(([member, status]) => [status as number, member as keyof typeof statusOfRefusal]),
);

/**
 * @param workerFile compiled workers/hmac.js
 * @param clampMs a time at which the events table has a partition.
 * @param onRejected a signature was refused.
 * @param agents `committed` is called after each commit with new events, before the requests are answered, and `stored` in the same turn with
 * the webhook of each.
 */
export function composeIngest(
  { settings, keys, spoolFolder, savedWebhooks, log, metrics, observe, database, cells, limiter }: Base,
  workerFile: string,
  clampMs: (ms: number) => number,
  onRejected: IngestParts['onRejected'],
  agents: { committed: () => void; stored: (webhookId: string) => void },
  latency: LatencyCounts,
) {
  const verifier = new Verifier({
    workerFile,
    threads: settings.THREADS,
    timeoutMs: settings.HMAC_TIMEOUT_MS,
    observer: observe.verifier,
  });
  const limits = { queueEventsMax: settings.QUEUE_EVENTS_MAX, commitEventsMax: settings.COMMIT_EVENTS_MAX };
  const repairs = new Set<PartitionRepair>();
  const healths = new WeakMap<Cell, CommitHealth>();
  const healthOf = (cell: Cell) => {
    const known = healths.get(cell);
    if (known !== undefined) return known;
    const repair = new PartitionRepair(cell.tables, {
      made: (partitions) => log('partitions_created', { partitions, newest: partitions.at(-1) }),
      failed: (error) => log('partitions_failed', { reason: error.message }),
    });
    repairs.add(repair);
    const health = new CommitHealth({
      probe: () => probeCommit(cell.database, clampMs(Date.now())),
      onPartitionMissing: () => repair.begin(),
      observer: observe.store(cell.number),
      nowMs: () => performance.now(),
    });
    healths.set(cell, health);
    return health;
  };
  const openStore = (cell: Cell) => {
    const observer = healthOf(cell).listening(observe.store(cell.number));
    return new EventStore({
      conninfo: cell.conninfo,
      ...limits,
      commitTimeoutMs:
        spoolFolder === undefined ? settings.COMMIT_TIMEOUT_MS : Math.min(settings.COMMIT_TIMEOUT_MS, SPOOL_AFTER_MS),
      spools: spoolFolder !== undefined,
      database: cell.database,
      cell: cell.number,
      copySql: cell.address.node === null ? undefined : copyOnNode(cell.number, cell.address.node),
      retentionDays: settings.RETENTION_DAYS,
      observer: {
        ...observer,
        connection: (up, reason) => {
          if (cell.number === 0) observer.connection(up, reason);
          else if (!up) cell.connectionLost(reason);
        },
        refused: (rows, sqlState, message) => {
          observer.refused(rows, sqlState, message);
          cell.eventRefused(sqlState);
        },
        committed: (events, ms) => {
          observer.committed(events, ms);
          if (events > 0) agents.committed();
        },
      },
    });
  };
  const health = healthOf(cells.numbered(0));
  const events = new CellStores(cells, openStore);
  const spool = composeSpool({ settings, spoolFolder, log, observe }, events, limits);
  const counts = new IngestCounts((rows) => addHistory(database, rows));
  const webhooks: WebhookSource = {
    database,
    keys: derivedKeys(keys, 'webhook-secrets'),
    capBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
    windowSeconds: settings.RATE_LIMIT_INGEST_WINDOW_SECONDS,
    countsOf: (webhookId) => counts.of(webhookId),
    onUnreadable: observe.secretUnreadable,
    // Home holds the webhooks: while it is away, those of other cells are stored.
    keepsServing: () => spool !== null || cells.all().length > 1,
  };
  const { directory, unreadable } = webhookDirectory(webhooks, savedWebhooks);
  const secretUses = new WriteBehind(
    (uses) => addSecretUses(database, uses),
    (one, other) => one + other,
  );
  const openLastEvents = (isUrgent: boolean) =>
    new WriteBehind((lastMs) => writeLastEvents(database, lastMs), Math.max, { isUrgent });
  const [lastEvents, expectedEvents] = [openLastEvents(false), openLastEvents(true)];
  const parts: IngestParts = {
    directory,
    limiter,
    policy: {
      name: 'ingest',
      max: settings.RATE_LIMIT_INGEST_MAX,
      windowSeconds: settings.RATE_LIMIT_INGEST_WINDOW_SECONDS,
    },
    capBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
    checkSignature: createSignatureCheck({
      verifier,
      publicUrl: settings.FRONTEND_PUBLIC_API_URL,
      onVerified: (webhook, keyIndex) => {
        metrics.verified(isCurrent(webhook, keyIndex) ? 'current' : 'previous');
        const uses = webhook.secretUses[keyIndex];
        if (uses !== undefined) secretUses.noteIn(uses, 1);
      },
    }),
    onRejected,
  };
  const store = {
    rows: new RowMaker(clampMs),
    events: spool?.store ?? events,
    onStored: (webhook: Webhook, receivedAtMs: number) => {
      agents.stored(webhook.id);
      (webhook.expectsEvents ? expectedEvents : lastEvents).noteIn(webhook.lastEvent, receivedAtMs);
      latency.stored(webhook.latency, receivedAtMs);
    },
  };

  const queued = () => events.queued + (spool?.store.queued ?? 0);
  const spooling = (cell: number) => spool?.store.queuedIn(cell) ?? 0;
  metrics.gauges('weir_queue_events', () =>
    events.queues().map(({ cell, queued }) => ({ labels: cellLabels(cell), value: queued + spooling(cell) })),
  );
  const fill = (longest: number, cell: number) => Math.max(longest, spooling(cell)) / settings.QUEUE_EVENTS_MAX;
  metrics.gauges(
    'weir_queue_fill_ratio',
    () => events.queues().map(({ cell, longest }) => ({ labels: cellLabels(cell), value: fill(longest, cell) })),
    'max',
  );
  metrics.gauge('weir_verify_queue_requests', () => verifier.queued);
  metrics.gauge('weir_threads', () => verifier.threads);
  metrics.gauge('weir_webhooks_secret_unavailable', () => unreadable.size, 'max');
  const isUp = (cell: Cell) =>
    (cell.number === 0 ? events.available : cell.away === null) && !(healths.get(cell)?.failing ?? false);
  metrics.gauges('weir_database_up', () =>
    cells
      .all()
      .filter(({ state }) => state !== 'adding')
      .map((cell) => ({ labels: cellLabels(cell.number), value: Number(isUp(cell)) })),
  );

  const unknownUrls = new UnknownUrls();
  const handshake = createHandshake(parts);
  return {
    handlers: {
      ingest: createIngest(parts, storeSingle(store)),
      handshake,
      handshakeOptions: handshake,
      ingestBatch: createIngest({ ...parts, refuses: refusesBatches }, storeBatch(store, settings.BATCH_LINES_MAX)),
    },
    directory,
    verifier,
    /** Counts a refusal by its status, at the webhook if it is known, and requests to unknown URLs. */
    finished: ({ aborted, status, route, parameters, path, client }: Exchange) => {
      if (status === 404 && path.startsWith(INGEST_PREFIX)) unknownUrls.note(client.network, path, Date.now());
      const member = refusals.get(status);
      if (member === undefined || aborted || !route.startsWith(INGEST_PREFIX)) return;
      const webhook = directory.known(parameters[0]!.toLowerCase());
      if (webhook !== undefined) webhook.counts[member]++;
    },
    /** Cells were added, changed or removed. */
    cellsChanged: () => events.forget(),
    /** Whether another cell than home takes events. */
    othersCommit: () => directory.size > 0 && events.othersAvailable,
    unknownUrls: () => unknownUrls.top(UNKNOWN_URLS_REPORTED),
    /** False: no connection is up to store anything. */
    canCommit: () => events.available,
    /** Why an event that came now would not be stored; null: it would be. Resolves within a second. */
    commitFailure: async (): Promise<CommitFailure | null> =>
      events.available ? health.failure() : { sqlState: null, reason: 'no connection' },
    /**
     * True: an event that came now would be spooled if its commit failed. Without a known webhook no event is accepted. Does not query
     * the database.
     */
    spools: async () => spool !== null && directory.size > 0 && (await spool.takes()),
    /** The last known result of `spools`. */
    spoolsNow: () => spool !== null && directory.size > 0 && spool.takesNow(),
    /** Events that wait for their commit. */
    queued,
    /** Every stored secret of the known webhooks opens. */
    secretsReadable: () => unreadable.size === 0,
    /** Rejects when the spool cannot be written. */
    checkSpool: async () => spool?.check(),
    start: () => events.start(),
    close: async () => {
      events.close();
      await Promise.all([
        spool?.store.close(),
        verifier.close(),
        secretUses.close(),
        lastEvents.close(),
        expectedEvents.close(),
        counts.close(),
        ...[...repairs].map((repair) => repair.close()),
      ]);
    },
  };
}
