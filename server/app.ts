/** A serving process: its parts, put together once, and what the primary may ask of it. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Arrivals } from './agents/arrivals.ts';
import { claimSchema, createClaim } from './agents/claim.ts';
import { Floors } from './agents/floors.ts';
import { ArrivalNotice } from './agents/notice.ts';
import { forAgent, forAgentWith } from './agents/route.ts';
import { createSession, me } from './agents/session.ts';
import { ackSchema, createSettle, extendSchema, nackSchema } from './agents/settle.ts';
import { AgentAuth } from './auth/agent.ts';
import { createReaderResolver } from './auth/reader.ts';
import { parseNetwork } from './core/address.ts';
import { Directory } from './db/directory.ts';
import type { Horizon } from './db/partitions.ts';
import { DatabaseUnavailable, openDatabase } from './db/pool.ts';
import { type Agent, readAgents } from './db/queries/read-agents.ts';
import { createReady, live } from './health.ts';
import { Clients } from './http/clients.ts';
import { ByteBudget, SlabArena } from './http/memory.ts';
import { HttpServer } from './http/server.ts';
import { storeBatch } from './ingest/batch.ts';
import { DedupeWriter } from './ingest/dedupe.ts';
import { createIngest, type IngestParts } from './ingest/ingest.ts';
import { EventWriter } from './ingest/persist.ts';
import { RowMaker } from './ingest/rows.ts';
import { storeSingle } from './ingest/single.ts';
import { Verifier } from './ingest/verify.ts';
import { webhookDirectory } from './ingest/webhook.ts';
import { derivedKeys } from './keys.ts';
import type { Log } from './log.ts';
import { createDeliveryList } from './manage/deliveries.ts';
import { createEvents } from './manage/events.ts';
import type { MetricsSnapshot, StartOrder } from './messages.ts';
import { Metrics } from './metrics.ts';
import { createObservers } from './observe.ts';
import { openLimiter } from './ratelimit/open.ts';
import { routeTable } from './routes.ts';

export interface App {
  /** The port that it listens on; of use when the setting is a free one chosen by the kernel. */
  port: number;
  heard(): void;
  arrived(): void;
  changesLost(): void;
  change(payload: string): Promise<void>;
  setHorizon(horizon: Horizon): void;
  metrics(): Promise<MetricsSnapshot>;
  /** readyz fails from now on. */
  leave(): void;
  /** Closes the listener, answers what was accepted within DRAIN_SECONDS, and lets go of everything. */
  drain(): Promise<void>;
}

/** The thread's file stands compiled beside this one's compiled form. */
const defaultWorkerFile = fileURLToPath(new URL('../workers/hmac.js', import.meta.url));

/** Builds a process and listens. Rejects when it cannot listen. A database that is away is waited for while serving. */
export async function startApp(order: StartOrder, log: Log, workerFile = defaultWorkerFile): Promise<App> {
  const { settings, conninfo } = order;
  let { horizon } = order;
  let leaving = false;

  const metrics = new Metrics();
  const observe = createObservers(metrics, log, settings.REQUEST_LOG_SLOW_MS);
  const database = openDatabase(conninfo, {
    connectionsMax: settings.DB_POOL_MAX,
    applicationName: 'weir',
    onError: observe.databaseError,
  });
  const limiter = await openLimiter(settings, log, { requireStore: false });
  const verifier = new Verifier({
    workerFile,
    threads: settings.THREADS,
    timeoutMs: settings.HMAC_TIMEOUT_MS,
    observer: observe.verifier,
  });
  const writer = new EventWriter({
    conninfo,
    queueEventsMax: settings.QUEUE_EVENTS_MAX,
    commitEventsMax: settings.COMMIT_EVENTS_MAX,
    commitTimeoutMs: settings.COMMIT_TIMEOUT_MS,
    observer: observe.writer,
  });
  const dedupeWriter = new DedupeWriter({
    database,
    retentionDays: settings.RETENTION_DAYS,
    queueEventsMax: settings.QUEUE_EVENTS_MAX,
    commitEventsMax: settings.COMMIT_EVENTS_MAX,
    available: () => writer.available,
    observer: observe.dedupeWriter,
  });
  const directory = webhookDirectory({
    database,
    keys: derivedKeys(order.keys, 'webhook-secrets'),
    capBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
    windowSeconds: settings.RATE_LIMIT_INGEST_WINDOW_SECONDS,
    onUnreadable: observe.secretUnreadable,
  });
  const ingestParts: IngestParts = {
    directory,
    limiter,
    policy: {
      name: 'ingest',
      max: settings.RATE_LIMIT_INGEST_MAX,
      windowSeconds: settings.RATE_LIMIT_INGEST_WINDOW_SECONDS,
    },
    capBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
    verifier,
    onVerified: (place) => metrics.verified(place === 0 ? 'current' : 'previous'),
  };
  const rows = new RowMaker((ms) => Math.min(Math.max(ms, horizon.fromMs), horizon.toMs - 1));
  const storeParts = { rows, writer, dedupeWriter };
  const agents = new Directory<Agent>((ids, rowsMax) => readAgents(database, ids, rowsMax));
  const auth = new AgentAuth({
    database,
    agents,
    limiter,
    policy: {
      name: 'agent-auth',
      max: settings.RATE_LIMIT_AGENT_AUTH_MAX,
      windowSeconds: settings.RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS,
    },
    keys: derivedKeys(order.keys, 'agent-sessions'),
  });
  const floors = new Floors();
  const arrivals = new Arrivals(database, floors);
  const notice = new ArrivalNotice(database, arrivals, () => agents.size > 0);
  writer.onCommitted(() => notice.committed());
  dedupeWriter.onCommitted(() => notice.committed());
  const attemptsMax = settings.DELIVERY_MAX_ATTEMPTS;
  const resolve = createReaderResolver(auth);
  const events = createEvents({ database, resolve });
  const settle = createSettle({ database, attemptsMax });
  const ready = createReady({
    database,
    canCommit: () => writer.available,
    threads: () => verifier.threads,
    draining: () => leaving,
    rateLimitStore: () => limiter.health(),
    nowMs: () => performance.now(),
  });
  const budget = new ByteBudget(settings.BODY_BYTES_HELD_MAX);
  const server = new HttpServer(
    routeTable({
      live,
      ready,
      ingest: createIngest(ingestParts, storeSingle(storeParts)),
      ingestBatch: createIngest(ingestParts, storeBatch(storeParts, settings.BATCH_LINES_MAX)),
      agentSession: createSession(auth),
      agentMe: forAgent(auth, me),
      claim: forAgentWith(auth, claimSchema, createClaim({ database, arrivals, floors, attemptsMax })),
      ack: forAgentWith(auth, ackSchema, settle.ack),
      nack: forAgentWith(auth, nackSchema, settle.nack),
      extend: forAgentWith(auth, extendSchema, settle.extend),
      listEvents: events.list,
      oneEvent: events.one,
      eventBody: events.body,
      listDeliveries: createDeliveryList(database, resolve),
    }),
    {
      memory: { budget, arena: new SlabArena(budget), clientBytesMax: settings.CLIENT_BODY_BYTES_HELD_MAX },
      clients: new Clients(settings.TRUSTED_PROXIES.map((text) => parseNetwork(text)!)),
      headerBytesMax: settings.HEADER_BYTES_MAX,
      clientRequestsMax: settings.CLIENT_REQUESTS_MAX,
      onFinished: observe.finished,
      isOutage: (error) => error instanceof DatabaseUnavailable,
      onFailure: observe.failed,
    },
  );

  /** By the first word of a change's payload. */
  const caches = { webhook: directory, agent: agents };
  const lag = monitorEventLoopDelay({ resolution: 10 });
  lag.enable();
  metrics.gauge('weir_queue_events', () => writer.queued + dedupeWriter.queued);
  metrics.gauge('weir_verify_queue_requests', () => verifier.queued);
  metrics.gauge('weir_body_bytes_held', () => budget.heldBytes);
  metrics.gauge('weir_connections', () => server.connections);
  metrics.gauge('weir_open_requests', () => server.openRequests);
  metrics.gauge('weir_claims_waiting', () => arrivals.size);
  metrics.gauge('weir_threads', () => verifier.threads);
  metrics.gauge('weir_database_up', () => Number(writer.available));
  metrics.gauge('weir_rate_limit_degraded', () => Number(limiter.health() === 'degraded'));
  metrics.gauge('weir_processes', () => 1);
  metrics.gauge('weir_resident_bytes', () => process.memoryUsage.rss());
  metrics.gauge('weir_event_loop_lag_seconds', () => readAndReset(lag), 'max');

  // A database that is away at this moment does not keep the process from answering 503 for itself.
  const preloads = [directory, agents].map((cache) => cache.preload().catch(() => {}));
  await Promise.race([Promise.all([writer.start(), ...preloads]), delay(START_WAIT_MS)]);
  const port = await server.listen(settings.HOST, settings.PORT);

  return {
    port,
    heard: () => {
      for (const cache of Object.values(caches)) cache.heard(Date.now());
    },
    arrived: () => arrivals.heard(),
    changesLost: () => {
      for (const cache of Object.values(caches)) cache.invalidateAll();
    },
    change: async (payload) => {
      const [kind, id] = payload.split(':');
      if (id !== undefined && kind! in caches) await caches[kind as keyof typeof caches].invalidate(id);
    },
    setHorizon: (next) => {
      horizon = next;
    },
    metrics: () => metrics.registry.getMetricsAsJSON() as Promise<MetricsSnapshot>,
    leave: () => {
      leaving = true;
    },
    drain: async () => {
      leaving = true;
      server.stopListening();
      arrivals.close();
      await Promise.race([server.quiet(QUIET_MS), delay(settings.DRAIN_SECONDS * 1000)]);
      if (server.openRequests > 0) log('drain_timeout', { open_requests: server.openRequests });
      server.close();
      writer.close();
      dedupeWriter.close();
      lag.disable();
      await Promise.all([verifier.close(), limiter.close(), database.close()]);
    },
  };
}

const START_WAIT_MS = 2_000;
/**
 * A draining process closes its idle connections when none has carried a request for this long. Closed at the first moment
 * without an open request, TERM under 32 busy keep-alive connections reset up to 30 requests.
 */
const QUIET_MS = 500;

/** 99th percentile in seconds since the last call. */
function readAndReset(lag: ReturnType<typeof monitorEventLoopDelay>): number {
  const seconds = lag.percentile(99) / 1e9;
  lag.reset();
  return Number.isFinite(seconds) ? seconds : 0;
}
