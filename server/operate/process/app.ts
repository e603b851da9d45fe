/** A serving process: builds its parts once and carries out the requests of the primary. */
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { weirCommand } from '../../base/command/name.ts';
import { builtFile, threadFile } from '../../base/files/build.ts';
import { ClientPackage } from '../../base/http/client-package.ts';
import { Clients } from '../../base/http/clients.ts';
import { allowedConnections, ConnectionLimit } from '../../base/http/connections.ts';
import { createApiFields } from '../../base/http/cors.ts';
import { ByteBudget, SlabArena } from '../../base/http/memory.ts';
import { HttpServer } from '../../base/http/server.ts';
import { UnreadLimit } from '../../base/http/unread.ts';
import { localUrl } from '../../base/net/loopback.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { expectedAnswers } from '../../manage/api/openapi/document.ts';
import { outageProblem } from '../../manage/api/operation.ts';
import { type AskDoctor, createDoctor } from '../../manage/api/status/doctor.ts';
import { alive, createReady, type StartWait } from '../../manage/api/status/health.ts';
import { parseNetwork } from '../../model/address.ts';
import type { Database } from '../../store/connect/pool.ts';
import { pendingMigrations } from '../../store/migrate.ts';
import { addLatency } from '../../store/queries/webhooks/latency.ts';
import { type Horizon, nearestWithin } from '../../store/retention/partitions.ts';
import type { GiveOrder, MetricsSnapshot, StartOrder } from '../primary/messages.ts';
import { openBase } from './base.ts';
import { composeAgents } from './compose/agents.ts';
import { composeIngest } from './compose/ingest.ts';
import { composeLive } from './compose/live.ts';
import { composePages } from './compose/pages.ts';
import { composePeople } from './compose/people.ts';
import { LatencyCounts } from './counts.ts';
import { routeTable, serveCommands } from './routes.ts';

export type App = Awaited<ReturnType<typeof startApp>>;

/**
 * Builds a process and listens. Rejects when it cannot listen. Serves while waiting for a database that is down.
 * @param workers directory of the compiled thread entry points.
 * @param askDoctor in a serving process, asks the primary.
 * @param giveOrder passes on orders of commands to the primary; tests run a process without one.
 */
export async function startApp(
  order: StartOrder,
  log: Log,
  workers = builtFile('workers'),
  askDoctor: AskDoctor = createDoctor(),
  giveOrder: GiveOrder = async () => ({ refused: 'this process has no primary' }),
) {
  const { settings } = order;
  let { horizon } = order;
  let awaited: StartWait | null = order.awaitsDatabase === true ? (order.awaited ?? 'database') : null;
  let leaving = false;
  let port = 0;

  const base = await openBase(order, log);
  const { metrics, observe, database, cells, limiter } = base;
  const clampMs = (ms: number) => nearestWithin(horizon, ms);
  const latency = new LatencyCounts((rows) => addLatency(base.database, rows));
  const agents = composeAgents(base, threadFile(workers, 'filter'), latency);
  const ingest = composeIngest(base, workers, clampMs, agents, latency);
  const live = composeLive(base, ingest, askDoctor);
  const operations = { ...agents.operations, ...ingest.rejectionOperations, ...live.operations };
  const people = await composePeople(base, agents.auth, operations, () => localUrl(settings.HOST, port));
  for (const { path, statuses } of expectedAnswers(people.operations)) metrics.expect(path, statuses);
  const build = dirname(workers);
  const client = new ClientPackage(settings.PUBLIC_URL, build);
  const pages = composePages({ ...base, judge: agents.tryJudge }, people, live, client, build);
  const ready = createReady({
    ...ingest,
    database,
    disks: () => live.history.latest?.disks ?? [],
    cells: () => cells.all(),
    draining: () => leaving,
    awaited: () => awaited,
    rateLimitStore: () => limiter.health(),
    nowMs: () => performance.now(),
  });
  const listening = { host: settings.HOST, port: () => port, nowMs: () => performance.now() };
  const budget = new ByteBudget(settings.BODY_BYTES_HELD_MAX);
  const limits = {
    memory: { budget, arena: new SlabArena(budget), clientBytesMax: settings.CLIENT_BODY_BYTES_HELD_MAX },
    connections: new ConnectionLimit({
      ...listening,
      processMax: allowedConnections(settings.CONNECTIONS_MAX),
      clientMax: settings.CLIENT_CONNECTIONS_MAX,
      onRefused: observe.connectionRefused,
    }),
    settings,
    unread: new UnreadLimit({ ...listening, bytesMax: settings.CLIENT_UNREAD_BYTES_MAX }),
    outageProblem,
    onFinished: observe.finished,
    onFailure: observe.failed,
  };
  const server = new HttpServer(
    routeTable(
      {
        live: alive,
        ready,
        ...ingest.handlers,
        ...pages.handlers,
        mcp: people.mcp,
        clientPackage: people.anonymous.document(client.serve),
        currentClient: people.anonymous.document(client.serveCurrent),
        pythonClient: people.anonymous.document(client.servePython),
      },
      { ...people, ...pages, clientPath: client.path },
    ),
    {
      ...limits,
      clients: new Clients(
        settings.TRUSTED_PROXIES.map((text) => parseNetwork(text)!),
        settings.FORWARDED_HEADER,
      ),
      prepare: createApiFields(people.cors, client.path),
      onFinished: (exchange) => {
        observe.finished(exchange);
        ingest.finished(exchange);
      },
      refuse: (exchange, code) => pages.pages.refuse(exchange, code, client.whyMissing(exchange.path)),
    },
  );

  /** Caches by the first word of a change's payload. */
  const caches = { webhook: ingest.directory, agent: agents.directory };
  metrics.gauge('weir_body_bytes_held', () => budget.heldBytes);
  metrics.gauge('weir_connections', () => server.connections);
  metrics.gauge('weir_open_requests', () => server.openRequests);
  metrics.gauge('weir_rate_limit_degraded', () => Number(limiter.health() === 'degraded'));
  metrics.gauge('weir_processes', () => 1);
  metrics.gauge('weir_log_lines_dropped_total', () => log.dropped());

  const preload = () =>
    [cells.load(), ...Object.values(caches).map((cache) => cache.preload())].map((read) => read.catch(() => {}));
  cells.onRead(ingest.cellsChanged);
  await ingest.checkSpool();
  if (base.usesDatabase()) {
    // When the database is down, the process starts anyway and answers 503 itself.
    const schema = refuseOldSchema(database);
    await Promise.race([Promise.all([schema, ingest.start(), ...preload()]), delay(START_WAIT_MS)]);
    // Without webhooks it would refuse requests that the other processes can spool.
    const knowsWebhooks = () =>
      ingest.directory.preload().then(
        () => true,
        () => false,
      );
    if (base.spoolFolder !== undefined && order.othersServe)
      while (ingest.directory.size === 0 && !(await knowsWebhooks())) await delay(START_RETRY_MS);
  }
  port = await server.listen(settings.HOST, settings.PORT);
  if (base.usesDatabase()) void ingest.directory.readAhead().catch(() => {});
  const commands = await serveCommands(order.runFolder, people.localApi, giveOrder, limits, log);

  return {
    /** The listening port; tests let the kernel choose a free one. */
    port,
    recordHeartbeat: () => {
      for (const cache of Object.values(caches)) cache.recordHeartbeat(Date.now());
    },
    arrived: (by: string) => agents.arrived(by),
    changesLost: () => {
      for (const cache of Object.values(caches)) cache.invalidateAll();
      // When the database does not answer, the cells are read again each second.
      void cells.load().catch(() => {});
      void live.streams.recheck();
    },
    change: async (payload: string) => {
      const [kind, id] = payload.split(':');
      if (id === undefined) return;
      if (kind === 'user') await live.streams.personChanged(id);
      else if (kind === 'cell') await cells.load();
      else if (kind === 'call') people.calls.cancel(id);
      else if (Object.hasOwn(caches, kind!)) await caches[kind as keyof typeof caches].invalidate(id);
    },
    setHorizon: (next: Horizon) => {
      horizon = next;
    },
    /** What the start waits for, until `useDatabase`. */
    awaits: (what: StartWait) => {
      if (awaited !== null) awaited = what;
    },
    /** The primary has prepared the database: it may be used from now on. Resolves when events are stored, or after a while. */
    useDatabase: async () => {
      awaited = null;
      if (base.usesDatabase()) return;
      base.useDatabase();
      await Promise.race([Promise.all([ingest.start(), ...preload()]), delay(START_WAIT_MS)]);
      void ingest.directory.readAhead().catch(() => {});
    },
    metrics: (): MetricsSnapshot => metrics.families(),
    sample: () =>
      live.sample({
        unknownUrls: ingest.unknownUrls(),
        database: ingest.canCommit() ? 'up' : 'down',
        spools: ingest.spoolsNow(),
        rateLimitStore: limiter.health(),
        leaving,
      }),
    live: live.recordSecond,
    /** Makes readyz fail from now on. */
    leave: () => {
      leaving = true;
    },
    /** Closes the listener, answers accepted requests within DRAIN_SECONDS, and releases all resources. */
    drain: async () => {
      leaving = true;
      await server.stopListening();
      agents.close();
      live.close();
      // The link for commands already names another process; its listener serves those that have read the link before, until the end.
      commands.draining = true;
      const quiet = server.quiet(QUIET_MS).then(() => commands.idle());
      await Promise.race([quiet, delay(settings.DRAIN_SECONDS * 1000)]);
      const open_requests = server.openRequests + commands.openRequests;
      if (open_requests > 0) log('drain_timeout', { open_requests });
      server.close();
      commands.close();
      await Promise.all([agents.closeLast(), ingest.close(), latency.close(), limiter.close()]);
      await cells.close();
      await database.close();
      await base.spans?.close();
    },
  };
}

/** Rejects when this build has migrations that the database lacks. A database that cannot be queried passes. */
async function refuseOldSchema(database: Database): Promise<void> {
  const [first, ...rest] = await pendingMigrations(database).catch(() => []);
  if (first === undefined) return;
  const more = rest.length === 0 ? '' : ` and ${rest.length} more`;
  throw new Error(
    `the database lacks migration ${first}${more} of this build; run: ${weirCommand()} migrate, then ${weirCommand()} reload`,
  );
}

const START_WAIT_MS = 2_000;
const START_RETRY_MS = 1_000;
/** Quiet time before idle connections are closed. Without it, TERM under 32 busy keep-alive connections reset up to 30 requests. */
const QUIET_MS = 500;
