/** The parts of a process that take webhooks in, and explain those that are refused. */
import { threadFile } from '../../../base/files/build.ts';
import type { Exchange } from '../../../base/http/exchange.ts';
import { policyOf } from '../../../base/ratelimit/limiter.ts';
import { rejectionOperations } from '../../../manage/api/rejections/rejection-operations.ts';
import { statusOfRefusal } from '../../../model/history.ts';
import { storeBatch } from '../../../receive/ingest/batch.ts';
import { createHandshake } from '../../../receive/ingest/handshake.ts';
import { createIngest, type IngestParts } from '../../../receive/ingest/ingest.ts';
import { IngestCounts } from '../../../receive/ingest/ingest-counts.ts';
import { RequestSamples } from '../../../receive/ingest/request-samples.ts';
import { createSignatureCheck } from '../../../receive/ingest/signature.ts';
import { RowMaker, storeSingle } from '../../../receive/ingest/store.ts';
import { UnknownUrls } from '../../../receive/ingest/unknown-urls.ts';
import { Verifier } from '../../../receive/ingest/verify.ts';
import { isCurrent, type Webhook, type WebhookSource, webhookDirectory } from '../../../receive/ingest/webhook.ts';
import { Diagnoser } from '../../../receive/rejections/diagnose.ts';
import { RejectionSampler } from '../../../receive/rejections/sampler.ts';
import { storeRequestSamples } from '../../../store/queries/rejections/ring.ts';
import { addHistory } from '../../../store/queries/webhooks/history.ts';
import { derivedKeys } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';
import type { LatencyCounts } from '../counts.ts';
import { composeStores } from './stores.ts';

const INGEST_PREFIX = '/in/';
/** Unknown URLs that a process reports to the primary each second. */
const UNKNOWN_URLS_REPORTED = 10;
/** The count of the history for each status of a refusal. */
const refusals = new Map(
  Object.entries(statusOfRefusal).map(([member, status]) => [status as number, member as keyof typeof statusOfRefusal]),
);

/**
 * Builds these parts.
 * @param workers directory of the compiled thread entry points.
 * @param clampMs moves a time to one at which the events table has a partition.
 * @param agents whose `stored` is called for each event that is stored, before its request is answered.
 */
export function composeIngest(
  base: Base,
  workers: string,
  clampMs: (ms: number) => number,
  agents: { stored: (webhookId: string) => void },
  latency: LatencyCounts,
) {
  const { settings, keys, savedWebhooks, metrics, observe, spans, database, cells, limiter } = base;
  const verifier = new Verifier({
    workerFile: threadFile(workers, 'hmac'),
    threads: settings.THREADS,
    timeoutMs: settings.HMAC_TIMEOUT_MS,
    observer: observe.verifier,
  });
  const stores = composeStores(base, clampMs);
  const rejections = composeRejections(base, threadFile(workers, 'diagnose'));
  const { spool } = stores;
  const openCounts = (isUrgent: boolean) => new IngestCounts((rows) => addHistory(database, rows), { isUrgent });
  // The alert `silent` reads the time of the last event, so the counts of webhooks with `expect_every_seconds` are written every few seconds.
  const [counts, expectedCounts] = [openCounts(false), openCounts(true)];
  const webhooks: WebhookSource = {
    database,
    keys: derivedKeys(keys, 'webhook-secrets'),
    capBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
    windowSeconds: settings.RATE_LIMIT_INGEST_WINDOW_SECONDS,
    counterOf: ({ id, expectsEvents, secretIds }) => (expectsEvents ? expectedCounts : counts).of(id, secretIds[0]),
    onUnreadable: observe.secretUnreadable,
    // Home holds the webhooks: while it is away, those of other cells are stored.
    keepsServing: () => spool !== null || cells.all().length > 1,
  };
  const { directory, unreadable } = webhookDirectory(webhooks, savedWebhooks);
  if (spans !== null) spans.isVerified = (id) => tracedOf(directory.known(id)).isVerified;
  const parts: IngestParts = {
    directory,
    limiter,
    policy: policyOf('INGEST', settings),
    capBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
    checkSignature: createSignatureCheck({
      verifier,
      publicUrl: settings.FRONTEND_PUBLIC_API_URL,
      onVerified: (webhook, secretIndex) => {
        metrics.verified[isCurrent(webhook, secretIndex) ? 'current' : 'previous'].value++;
        const id = webhook.secretIds[secretIndex];
        if (id === undefined) return;
        const counts = webhook.counter.touch();
        if (id === counts.secretId) counts.uses++;
        else {
          counts.previousUses++;
          counts.by_previous++;
        }
      },
    }),
    onRejected: rejections.offer,
  };
  const store = {
    rows: new RowMaker(
      clampMs,
      spans === null ? null : (exchange, webhook, id) => spans.begin(exchange, tracedOf(webhook), id),
    ),
    events: stores.events,
    onStored: (webhook: Webhook, receivedAtMs: number) => {
      agents.stored(webhook.id);
      const counts = webhook.counter.touch();
      if (receivedAtMs > counts.lastEventMs) counts.lastEventMs = receivedAtMs;
      latency.stored(webhook.latency, receivedAtMs);
    },
  };

  metrics.gauge('weir_verify_queue_requests', () => verifier.queued);
  metrics.gauge('weir_threads', () => verifier.threads);
  metrics.gauge('weir_webhooks_secret_unavailable', () => unreadable.size, 'max');
  const unknownUrls = new UnknownUrls();
  const samples = new RequestSamples((rows) => storeRequestSamples(database, rows));
  const handshake = createHandshake(parts);
  return {
    handlers: {
      ingest: createIngest(parts, storeSingle(store)),
      handshake,
      handshakeOptions: handshake,
      ingestBatch: createIngest({ ...parts, isBatch: true }, storeBatch(store, settings.BATCH_LINES_MAX)),
    },
    directory,
    threads: () => verifier.threads,
    rejectionOperations: rejections.operations,
    /** Counts a refusal by its status, at the webhook if it is known, and samples it; notes requests to unknown URLs. */
    finished: (exchange: Exchange) => {
      const { aborted, status, route, parameters, path, client } = exchange;
      if (status < 300 && !exchange.isDuplicate) return;
      if (status === 404 && path.startsWith(INGEST_PREFIX)) unknownUrls.note(client.network, path, Date.now());
      if (aborted || !route.startsWith(INGEST_PREFIX)) return;
      const webhook = directory.known(parameters[0]!.toLowerCase());
      if (webhook === undefined) return;
      const member = refusals.get(status);
      if (member !== undefined) webhook.counter.touch()[member]++;
      samples.offer(exchange, webhook.id, Date.now());
    },
    /** Cells were added, changed or removed. */
    cellsChanged: stores.cellsChanged,
    /** Whether another cell than home takes events. */
    othersCommit: () => directory.size > 0 && stores.othersAvailable(),
    unknownUrls: () => unknownUrls.top(UNKNOWN_URLS_REPORTED),
    /** False: no connection is up to store anything. */
    canCommit: stores.available,
    /** Why an event that came now would not be stored; null: it would be. Resolves within a second. */
    commitFailure: stores.commitFailure,
    /**
     * True: an event that came now would be spooled if its commit failed. Without a known webhook no event is accepted. Does not query
     * the database.
     */
    spools: async () => spool !== null && directory.size > 0 && (await spool.takes()),
    /** The last known result of `spools`. */
    spoolsNow: () => spool !== null && directory.size > 0 && spool.takesNow(),
    /** Every stored secret of the known webhooks opens. */
    secretsReadable: () => unreadable.size === 0,
    /** Rejects when the spool cannot be written. */
    checkSpool: async () => spool?.check(),
    start: stores.start,
    close: async () => {
      await Promise.all([
        stores.close(),
        verifier.close(),
        counts.close(),
        expectedCounts.close(),
        rejections.close(),
        samples.close(),
      ]);
    },
  };
}

/** What keeps refused signatures and explains them. @param workerFile compiled workers/diagnose.js */
function composeRejections(
  { settings, keys: secretsKeys, metrics, observe, database, changes }: Base,
  workerFile: string,
) {
  const keys = derivedKeys(secretsKeys, 'webhook-secrets');
  const diagnoser = new Diagnoser(workerFile);
  const diagnose = diagnoser.diagnose.bind(diagnoser);
  const keeper = new RejectionSampler({
    database,
    keys,
    diagnose,
    observer: observe.rejections,
    limits: {
      rejectionsMax: settings.REJECTIONS_KEPT_MAX,
      webhookRejectionsMax: Math.ceil(settings.REJECTIONS_KEPT_MAX / 5),
      bytesMax: settings.REJECTIONS_KEPT_BYTES_MAX,
    },
    bodyBytesMax: settings.REJECTION_BODY_BYTES_MAX,
    publicUrl: settings.FRONTEND_PUBLIC_API_URL,
    nowMs: () => performance.now(),
  });
  metrics.gauge('weir_rejection_bytes_held', () => keeper.waitingBytes);

  return {
    offer: keeper.offer.bind(keeper),
    operations: rejectionOperations({
      database,
      changes,
      keys,
      key: keys[0]!,
      diagnose,
      retentionDays: settings.RETENTION_DAYS,
    }),
    close: async () => {
      await keeper.close();
      await diagnoser.close();
    },
  };
}

/** What spans need of a webhook. Its requests are verified if it has a key. */
function tracedOf(webhook: Webhook | undefined): { id: string; isVerified: boolean } {
  return { id: webhook?.id ?? '', isVerified: (webhook?.keyring.keys.length ?? 0) > 0 };
}
