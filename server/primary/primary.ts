/** The primary: prepares everything, keeps the processes running, and shuts down in reverse order. */
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { checkArchive } from '../archive/write.ts';
import { attachUnmigrated } from '../db/attach.ts';
import { lockDataDir } from '../db/data-dir.ts';
import { ChangeListener } from '../db/listen.ts';
import { usualHorizon } from '../db/partitions.ts';
import { openDatabase } from '../db/pool.ts';
import { countOrEstimateDeliveries } from '../db/queries/delivery-counts.ts';
import { DoctorRunner } from '../doctor/ask.ts';
import { runJobs } from '../jobs/run.ts';
import { LiveHub } from '../live/hub.ts';
import { openLimiter } from '../ratelimit/open.ts';
import { loadSecretsKeys } from '../secrets/keys.ts';
import { portError, probePort } from '../settings/port.ts';
import type { Configuration, Given, Settings } from '../settings/read.ts';
import { type AdjustableLog, createLog, type LogDestination, openDestination } from '../telemetry/log.ts';
import { Alerts, runAlerts } from './alerts.ts';
import { FigureReader } from './database-figures.ts';
import { chooseServingUser, findEntryFile, prepareForks } from './forks.ts';
import { runMaintenance } from './maintenance.ts';
import type { Plan } from './member.ts';
import { Members } from './members.ts';
import { MemoryGuard } from './memory-guard.ts';
import { MetricsPage } from './metrics-page.ts';
import { prepareDatabase, waitForDatabase } from './prepare.ts';
import { createRestart } from './restart.ts';
import { type Ending, waitForEnd } from './signals.ts';
import { openSpool } from './spool.ts';
import { Supervisor } from './supervisor.ts';
import { UndoStack } from './undo.ts';

/** One for the lock, one for the batches. */
const JOB_CONNECTIONS = 2;

interface Running {
  supervisor: Supervisor;
  restart: () => Promise<void>;
  /** Returns the current settings. */
  settings: () => Settings;
  address: string | null;
}

/**
 * Runs Weir until a signal or a permanent failure; resolves with the exit code. When Weir cannot start, undoes all completed steps and
 * rejects with a message for people.
 * @param configure reads the settings at the start and at each HUP. Throws SettingsError.
 */
export async function runPrimary(configure: () => Configuration, terminal: boolean): Promise<number> {
  const first = configure();
  const destination = openDestination(1, terminal);
  const log = createLog(destination, first.settings.LOG_LEVEL, { place: 'primary' });
  const undo = new UndoStack();
  process.on('uncaughtException', (error) => {
    log('crash', { err: error });
    void destination.finish().then(() => process.exit(1));
  });

  const ending = waitForEnd(terminal);
  try {
    const { supervisor, restart, settings, address } = await start(configure, first, log, destination, undo, ending);
    ending.onScale((change) => supervisor.scale(change));
    ending.onRestart(() => void restart());
    if (terminal) greet(first.settings, address, process.stdout);
    const { code, reason } = await ending.ended;
    log('draining', { reason });
    supervisor.leave();
    if (code === 0) await delay(settings().DRAIN_DELAY_SECONDS * 1000);
    return code;
  } finally {
    await undo.run();
    ending.stop();
    log('stopped');
    await destination.finish();
  }
}

async function start(
  configure: () => Configuration,
  first: Configuration,
  log: AdjustableLog,
  destination: LogDestination,
  undo: UndoStack,
  ending: Ending,
): Promise<Running> {
  const { settings } = first;
  let current = settings;
  await probePort('PORT', settings.HOST, settings.PORT);
  if (settings.ARCHIVE_DIR !== undefined) await checkArchive(settings.ARCHIVE_DIR);
  const keys = loadSecretsKeys(settings);
  const lock = await lockDataDir(settings.DATA_DIR);
  undo.push(() => lock.release());
  log('starting', { processes: settings.WORKERS, threads: settings.THREADS, database: settings.database.kind });

  const { conninfo, database, revive, detach } = await attachUnmigrated(
    settings,
    (line) => log('database_starting', { line }),
    { joinSmaller: false },
  );
  undo.push(detach);
  const preparing = { conninfo, database, settings, keys, log };
  const entryFile = findEntryFile(fileURLToPath(new URL('../main.js', import.meta.url)), process.argv[1]);
  const choosing = chooseServingUser(join(dirname(entryFile), 'process/trial.js'), settings, conninfo);
  let prepared = await prepareDatabase(preparing);
  let horizon = 'reason' in prepared ? usualHorizon(Date.now()) : prepared.horizon;
  await (await openLimiter(settings, (fields) => log('rate_limit_store', fields), { requireStore: true })).close();

  const figures = new FigureReader(database);
  const choice = await choosing;
  if (choice.kind === 'root') log('serving_as_root', { reason: choice.reason, fix: choice.fix });
  const doctor = new DoctorRunner(join(dirname(entryFile), 'cli/weir.js'));
  undo.push(() => doctor.close());

  const user = choice.kind === 'user' ? choice.user : null;
  const spool = await openSpool({ settings: () => current, conninfo, database, keys, log, owner: user });
  undo.push(() => spool.stop());
  const alerts = new Alerts({ database, log, settings: () => current, spool, startedMs: Date.now() });
  const page: MetricsPage = new MetricsPage(
    () => members.collectMetrics(),
    () => figures.figures(),
    async () => [...(await spool.families()), ...alerts.families()],
    () => log.dropped(),
    (error) => log('metrics_failed', { reason: error.message }),
  );
  page.horizon(horizon);
  const plan = ({ given, settings }: Configuration): Plan => ({
    processes: settings.WORKERS,
    readyMs: settings.PROCESS_READY_SECONDS * 1000,
    silentSeconds: settings.PROCESS_SILENT_SECONDS,
    drainMs: settings.DRAIN_SECONDS * 1000,
    order: () => {
      const othersServe = members.in('serving').length > 0;
      return {
        given: pinned(given, settings),
        conninfo,
        keys,
        horizon,
        history: live.history,
        othersServe,
        awaitsDatabase: 'reason' in prepared,
        ...spool.order(),
      };
    },
  });
  const members = new Members();
  prepareForks(entryFile, user);
  const supervisor: Supervisor = new Supervisor({
    members,
    plan: plan(first),
    environment: user?.env ?? {},
    log,
    destination,
    onSample: (pid, sample) => live.take(pid, sample),
    askDoctor: () => doctor.ask(),
    onEnded: (pid, lastSnapshot, byItself) => {
      live.ended(pid);
      page.keep(lastSnapshot);
      if (byItself) page.died();
    },
    onHopeless: (reason) => ending.end(1, reason),
  });
  const live: LiveHub = new LiveHub({
    collect: () => members.takeSamples(),
    send: (second) => members.broadcast({ kind: 'live', live: second }),
    databaseAnswers: () => listener.answers,
    countDeliveries: async () => ({ ...(await countOrEstimateDeliveries(database)), at: new Date().toISOString() }),
  });
  const restart = createRestart({
    current: () => current,
    read: configure,
    replace: async (next) => {
      const outcome = await supervisor.restart(plan(next));
      if (outcome.replaced > 0) {
        current = next.settings;
        log.setLevel(current.LOG_LEVEL);
      }
      return outcome;
    },
    database,
    log,
    onDone: (outcome) => page.restarted(outcome),
  });
  await page.listen(settings.METRICS_HOST, settings.METRICS_PORT).catch((error) => {
    throw portError('METRICS_PORT', settings.METRICS_HOST, settings.METRICS_PORT, error);
  });
  undo.push(() => page.close());

  const listener = new ChangeListener(conninfo, {
    change: (payload) => {
      spool.webhooksChanged();
      return members.applyEverywhere(payload);
    },
    arrived: () => members.broadcast({ kind: 'arrived' }),
    alive: () => members.broadcast({ kind: 'heard' }),
    lost: () => revive().catch((error) => log('database_starting', { line: error.message })),
    up: () => {
      log('listener_up');
      spool.webhooksChanged();
      members.broadcast({ kind: 'changes_lost' });
    },
    down: (reason) => log('listener_down', { reason }),
  });
  // Also while Weir waits for the database: the spool may be in use.
  undo.push(runAlerts(alerts));

  const running = { supervisor, restart, settings: () => current };
  let serving: Promise<boolean> | null = null;
  if ('reason' in prepared) {
    // The processes refuse what needs the database, or spool it, as in every outage.
    undo.push(() => supervisor.stop());
    serving = supervisor.start();
    const stopping = new AbortController();
    void ending.ended.then(() => stopping.abort());
    const outcome = await waitForDatabase(preparing, prepared, stopping.signal);
    if (outcome === null) return { ...running, address: null };
    prepared = outcome;
    horizon = prepared.horizon;
    page.horizon(horizon);
    members.broadcast({ kind: 'horizon', horizon });
    members.broadcast({ kind: 'database_prepared' });
  }
  const { address } = prepared;

  listener.start();
  undo.push(() => listener.stop());
  spool.drain();
  undo.push(
    runMaintenance({
      database,
      log,
      settings: () => current,
      onHorizon: (next) => {
        horizon = next;
        page.horizon(next);
        members.broadcast({ kind: 'horizon', horizon });
      },
      onLastLeases: (agentIds) => page.lastLeasesEnded(agentIds),
      onUnhandled: (deliveries) => page.deliveriesUnhandled(deliveries),
      onMaintained: () => page.maintained(),
    }),
  );

  const jobsDatabase = openDatabase(conninfo, {
    connectionsMax: JOB_CONNECTIONS,
    applicationName: 'weir-jobs',
  });
  undo.push(() => jobsDatabase.close());
  undo.push(
    runJobs({
      database: jobsDatabase,
      log,
      perSecond: () => current.REPLAY_DELIVERIES_PER_SECOND,
      onReplayed: (events) => page.eventsReplayed(events),
    }),
  );

  live.start();
  undo.push(() => live.stop());

  const guard = new MemoryGuard({
    limit: () => current.PROCESS_MEMORY_MAX,
    replaceable: () => (supervisor.isQuiet ? members.in('serving') : []),
    replace: (member) => supervisor.replace(member),
    log,
    onReplaced: () => page.memoryReplaced(),
  });
  undo.push(guard.start());

  undo.push(() => supervisor.stop());
  const isUp = await Promise.race([serving ?? supervisor.start(), ending.ended.then(() => false)]);
  if (isUp) log('listening', { url: settings.PUBLIC_URL, processes: supervisor.wanted });
  // Logged last, where it is visible. It goes to the log because without a terminal there is no other output.
  if (address !== null) log('setup_address', { url: address });
  return { ...running, address };
}

/** Fixes the resolved DATA_DIR: its default may depend on the user that runs the process. */
function pinned({ values, directory }: Given, { DATA_DIR }: Settings): Given {
  return { values: { ...values, DATA_DIR }, directory };
}

/** Prints Weir's URL and the next step. @param setupAddress null when an administrator exists. */
function greet(settings: Settings, setupAddress: string | null, out: { write(text: string): unknown }): void {
  out.write(
    [
      '',
      `  Weir receives webhooks at ${settings.FRONTEND_PUBLIC_API_URL}`,
      `  Pages:                    ${settings.PUBLIC_URL}`,
      '',
      ...(setupAddress === null ? [] : [`  Create the administrator: ${setupAddress}`, '']),
      '  Create a webhook:   npx weir webhook add --name github --generate-secret',
      '  Send test events:   npx weir send URL --secret SECRET --github-examples',
      `  Metrics:            http://${settings.METRICS_HOST}:${settings.METRICS_PORT}/metrics`,
      '  Stop:               Ctrl-C',
      '',
      '',
    ].join('\n'),
  );
}
