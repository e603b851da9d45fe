/** The primary: makes everything ready, keeps the processes running, and takes it down in the reverse order. */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ensureAdministrator, setupAddress } from './auth/setup.ts';
import type { Settings } from './config.ts';
import { attachDatabase, checkConnectionBudget } from './db/attach.ts';
import { ChangeListener } from './db/listen.ts';
import { lockDataDir } from './db/lock.ts';
import type { Database } from './db/pool.ts';
import { countDeliveries } from './db/queries/count-deliveries.ts';
import { derivedKeys, loadSecretsKeys } from './keys.ts';
import { LiveHub } from './live/hub.ts';
import { createLog, type Log, openDestination } from './log.ts';
import { checkKeys } from './primary/check-keys.ts';
import { greet } from './primary/greeting.ts';
import { extendPartitions, keepHouse } from './primary/housekeeping.ts';
import { MetricsPage } from './primary/metrics-page.ts';
import { portError, probePort } from './primary/port.ts';
import { waitForEnd } from './primary/signals.ts';
import { Supervisor } from './primary/supervisor.ts';
import { UndoStack } from './primary/undo.ts';
import { openLimiter } from './ratelimit/open.ts';

/**
 * Runs Weir until a signal or a hopeless failure ends it; resolves with the exit code. Rejects when it cannot start, with
 * a message fit for people, after everything that was begun has been undone.
 */
export async function runPrimary(settings: Settings, terminal: boolean): Promise<number> {
  const destination = openDestination(1, terminal);
  const log = createLog(destination, settings.LOG_LEVEL, { place: 'primary' });
  const undo = new UndoStack();
  process.on('uncaughtException', (error) => {
    log('crash', { err: error });
    destination.flush();
    process.exit(1);
  });

  const ending = waitForEnd(terminal);
  try {
    const { supervisor, address } = await start(settings, log, destination, undo, ending.end);
    ending.onScale((change) => supervisor.scale(change));
    ending.onRestart(() => void supervisor.restart());
    if (terminal) greet(settings, address, process.stdout);
    const { code, reason } = await ending.ended;
    log('draining', { reason });
    supervisor.broadcast({ kind: 'leaving' });
    if (code === 0) await delay(settings.DRAIN_DELAY_SECONDS * 1000);
    return code;
  } finally {
    await undo.run();
    ending.stop();
    log('stopped');
    destination.flush();
  }
}

async function start(
  settings: Settings,
  log: Log,
  destination: ReturnType<typeof openDestination>,
  undo: UndoStack,
  end: (code: number, reason: string) => void,
): Promise<{ supervisor: Supervisor; address: string | null }> {
  await probePort('PORT', settings.HOST, settings.PORT);
  const keys = loadSecretsKeys(settings);
  const lock = await lockDataDir(settings.DATA_DIR);
  undo.push(() => lock.release());
  log('starting', { processes: settings.WORKERS, threads: settings.THREADS, database: settings.database.kind });

  const { conninfo, database, migrated, revive, detach } = await attachDatabase(
    settings,
    (line) => log('database_starting', { line }),
    { joinSmaller: false },
  );
  undo.push(detach);
  for (const name of migrated) log('migrated', { migration: name });
  await checkConnectionBudget(database, settings);
  await checkKeys(database, settings, keys);
  const address = await firstAdministrator(database, settings, derivedKeys(keys, 'setup')[0]!);
  let horizon = await extendPartitions(database, log);
  await (await openLimiter(settings, log, { requireStore: true })).close();

  const page: MetricsPage = new MetricsPage(
    () => supervisor.collectMetrics(),
    (error) => log('metrics_failed', { reason: error.message }),
  );
  const supervisor: Supervisor = new Supervisor({
    entryFile: fileURLToPath(new URL('./main.js', import.meta.url)),
    processes: settings.WORKERS,
    drainMs: settings.DRAIN_SECONDS * 1000,
    order: () => ({ settings, conninfo, keys, horizon, history: live.history }),
    log,
    destination,
    onSample: (pid, sample) => live.take(pid, sample),
    onEnded: (pid, lastSnapshot, byItself) => {
      live.ended(pid);
      page.keep(lastSnapshot);
      if (byItself) page.restarted();
    },
    onHopeless: (reason) => end(1, reason),
  });
  const live: LiveHub = new LiveHub({
    collect: () => supervisor.takeSamples(),
    tell: (second) => supervisor.broadcast({ kind: 'live', live: second }),
    countDeliveries: async () => ({ ...(await countDeliveries(database)), at: new Date().toISOString() }),
  });
  await page.listen(settings.METRICS_HOST, settings.METRICS_PORT).catch((error) => {
    throw portError('METRICS_PORT', settings.METRICS_HOST, settings.METRICS_PORT, error);
  });
  undo.push(() => page.close());

  const listener = new ChangeListener(conninfo, {
    change: (payload) => supervisor.applyEverywhere(payload),
    arrived: () => supervisor.broadcast({ kind: 'arrived' }),
    alive: () => supervisor.broadcast({ kind: 'heard' }),
    lost: () => revive().catch((error) => log('database_starting', { line: error.message })),
    up: () => {
      log('listener_up');
      supervisor.broadcast({ kind: 'changes_lost' });
    },
    down: (reason) => log('listener_down', { reason }),
  });
  listener.start();
  undo.push(() => listener.stop());

  undo.push(
    keepHouse(
      database,
      settings,
      log,
      (next) => {
        horizon = next;
        supervisor.broadcast({ kind: 'horizon', horizon });
      },
      (deliveries) => page.deliveriesUnhandled(deliveries),
    ),
  );

  live.start();
  undo.push(() => live.stop());

  undo.push(() => supervisor.stop());
  if (await supervisor.start()) log('listening', { url: settings.PUBLIC_URL, processes: supervisor.size });
  // Last, where it is seen; to the log, since without a terminal nobody else could tell it.
  if (address !== null) log('setup_address', { url: address });
  return { supervisor, address };
}

/** The set-up address, where people sign in with passwords and there is no administrator that could. */
async function firstAdministrator(database: Database, settings: Settings, key: Buffer): Promise<string | null> {
  if (settings.AUTH_MODE === 'hosted') return null;
  await ensureAdministrator(database, settings);
  return setupAddress(database, key, settings.PUBLIC_URL);
}
