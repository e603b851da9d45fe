/** The serving processes, and what the primary does for them from their start to their end: supervision, counters, metrics, HUP. */
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { portError } from '../../base/settings/port.ts';
import type { LoadedSettings, Settings } from '../../base/settings/read.ts';
import type { AdjustableLog, LogDestination } from '../../base/telemetry/log.ts';
import { every } from '../../base/time/every.ts';
import { createDoctor } from '../../manage/api/status/doctor.ts';
import type { StartWait } from '../../manage/api/status/health.ts';
import { LiveHub } from '../../manage/live/hub.ts';
import { OutageLog } from '../../manage/live/outages.ts';
import { recordBuild } from '../../store/audit/record.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import { addOutages } from '../../store/queries/alerts/issues.ts';
import { countOrEstimateDeliveries } from '../../store/queries/deliveries/counts.ts';
import type { Horizon } from '../../store/retention/partitions.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import type { Alerts } from './alerts.ts';
import { Children } from './children.ts';
import { DeathLog } from './deaths.ts';
import type { Disks } from './disks.ts';
import type { Ending, UndoStack } from './ending.ts';
import { figureReader, primaryFamilies } from './families.ts';
import { givenToProcess, prepareForks } from './forks.ts';
import { createListener } from './listener.ts';
import { CHECK_MEMORY_EVERY_MS, memoryGuard } from './memory-guard.ts';
import type { SentOrder } from './messages.ts';
import { MetricsPage } from './metrics-page.ts';
import type { Release } from './release.ts';
import { carryOut, createRestarts } from './restart.ts';
import type { RunFolder } from './run-folder.ts';
import type { ServingUser } from './serving-user.ts';
import type { PrimarySpool } from './spool.ts';
import { Supervisor } from './supervisor.ts';
import type { ServiceReports } from './systemd.ts';

export interface State {
  settings: Settings;
  /** The time span that has partitions. */
  horizon: Horizon;
  /** Last successful maintenance, Unix milliseconds; 0 before the first. */
  maintainedMs: number;
  /** What the start waits for before it uses the database; null: it is prepared. */
  awaited: StartWait | null;
}

export interface Shared {
  state: State;
  conninfo: string;
  /** Statements on events and deliveries run in their cells. */
  database: Database;
  cells: Cells;
  keys: SecretsKeys;
  log: AdjustableLog;
  undo: UndoStack;
}

export interface StartParts {
  first: LoadedSettings;
  /** Reads the settings again. Throws SettingsError. */
  configure: () => LoadedSettings;
  log: AdjustableLog;
  destination: LogDestination;
  undo: UndoStack;
  ending: Ending;
  service: ServiceReports;
}

interface ServingParts extends Shared, StartParts {
  /** See AttachedDatabase. */
  servingConninfo: string;
  /** What the processes run, and their user; null: that of the primary. */
  release: Release;
  user: ServingUser | null;
  spool: PrimarySpool;
  runFolder: RunFolder;
  alerts: Alerts;
  disks: Disks;
  /** Restarts an embedded server that was killed. */
  revive: () => Promise<void>;
}

export type Serving = Awaited<ReturnType<typeof openServing>>;

/** Prepares the processes without starting one, and opens the metrics page. Rejects when METRICS_PORT is not available. */
export async function openServing(parts: ServingParts) {
  const { first, configure, state, database, log, destination, undo, ending, user, release, spool, runFolder, disks } =
    parts;
  const children = new Children();
  undo.push(disks.start());
  const page = await openPage(parts, children);
  const listener = createListener(parts, children);
  const outages = new OutageLog({
    dataDir: state.settings.DATA_DIR,
    machine: hostname(),
    store: (ended) => addOutages(database, ended),
    onNotSaved: (error) => log('outage_not_saved', { reason: error.message }),
  });
  const deaths = new DeathLog();
  const live = new LiveHub({
    collect: () => children.takeSamples(),
    send: (second) => children.broadcast({ kind: 'live', live: second }),
    outages,
    deaths: () => deaths.known,
    disks: () => disks.states,
    databaseAnswers: () => state.awaited === null && listener.answers,
    countDeliveries: async () => ({ ...(await countOrEstimateDeliveries(database)), at: new Date().toISOString() }),
  });
  const stopping = new AbortController();
  undo.push(() => stopping.abort());

  const order = ({ given, settings }: LoadedSettings): SentOrder => ({
    given: givenToProcess(given, settings),
    conninfo: parts.servingConninfo,
    keys: parts.keys,
    horizon: state.horizon,
    history: live.history,
    othersServe: children.in('serving').length > 0,
    ...(state.awaited === null ? {} : { awaitsDatabase: true, awaited: state.awaited }),
    ...spool.order(),
    ...(runFolder.path === undefined ? {} : { runFolder: runFolder.path }),
  });
  const planOf = (given: LoadedSettings) => ({ settings: given.settings, order: () => order(given) });
  prepareForks(release.entryFile, user);
  const supervisor = new Supervisor({
    children,
    plan: planOf(first),
    environment: user?.env ?? {},
    log,
    destination,
    onSample: (pid, sample) => live.take(pid, sample),
    onServing: () => runFolder.point(children.in('serving').map(({ pid }) => pid!)),
    askDoctor: createDoctor(join(dirname(release.source), 'cli/weir.js'), stopping.signal),
    onOrder: (order) => carryOut(order, { supervisor, children, restarts, settings: () => state.settings, database }),
    onEnded: (child, byItself) => {
      live.ended(child.pid ?? 0);
      runFolder.ended(child.pid ?? 0);
      page.keep(child.lastSnapshot);
      if (!byItself) return;
      page.count('weir_process_restarts_total');
      deaths.add(child);
    },
    onComplete: () => deaths.recovered(),
    onHopeless: (reason) => ending.end(1, reason),
  });
  /** Records the builds that serve, which charts show as a deploy. While the database is away, that is left to the next restart. */
  const noteBuild = () => void recordBuild(database, children.builds).catch(() => {});
  const guardMemory = memoryGuard({
    limit: () => state.settings.PROCESS_MEMORY_MAX,
    replaceable: () => (supervisor.isQuiet ? children.in('serving') : []),
    replace: (child) => supervisor.replace(child),
    log,
    onReplaced: () => page.count('weir_processes_replaced_for_memory_total'),
  });
  const restarts = createRestarts({
    current: () => state.settings,
    build: () => children.builds,
    read: configure,
    replace: async (next) => {
      await release.renew();
      prepareForks(release.entryFile, user);
      const outcome = await supervisor.restart(planOf(next));
      if (outcome.replaced > 0) {
        state.settings = next.settings;
        log.setLevel(next.settings.LOG_LEVEL);
      }
      if (outcome.ok) {
        noteBuild();
        await release.removeOthers();
      }
      return outcome;
    },
    database,
    log,
    onBegun: () => parts.service.reloading(),
    onDone: (outcome) => {
      page.count('weir_rolling_restarts_total', 1, { outcome });
      parts.service.ready();
    },
  });

  const setHorizon = (horizon: Horizon) => {
    state.horizon = horizon;
    children.broadcast({ kind: 'horizon', horizon });
  };
  return {
    supervisor,
    page,
    /** Created but not started: it needs a prepared database. */
    listener,
    setHorizon,
    noteBuild,
    /** Informs the processes of what the start waits for. */
    awaits(awaited: StartWait) {
      state.awaited = awaited;
      children.broadcast({ kind: 'awaited', awaited });
    },
    /** The database has a schema for this release: the processes may use it. Resolves when they do. */
    databasePrepared(horizon: Horizon) {
      state.awaited = null;
      setHorizon(horizon);
      return children.useDatabase();
    },
    /**
     * Starts the processes and supervises them; HUP, TTIN and TTOU work from now on. Resolves with true when all serve, with false when
     * the supervisor gave up or was stopped.
     */
    begin() {
      live.start();
      undo.push(async () => {
        live.stop();
        await outages.close();
      });
      undo.push(every(CHECK_MEMORY_EVERY_MS, guardMemory));
      undo.push(() => supervisor.stop());
      const allServe = supervisor.start();
      ending.on('SIGTTIN', () => supervisor.setWanted(supervisor.wanted + 1));
      ending.on('SIGTTOU', () => supervisor.setWanted(supervisor.wanted - 1));
      ending.on('SIGHUP', () => restarts.request());
      return allServe;
    },
  };
}

async function openPage({ state, cells, log, undo, spool, alerts, disks }: ServingParts, children: Children) {
  const page = new MetricsPage({
    collect: () => children.collectMetrics(),
    readFigures: figureReader(cells),
    ownFamilies: async () => [
      ...primaryFamilies(
        state,
        children.all().flatMap(({ build }) => build ?? []),
        log.dropped(),
      ),
      ...(await spool.families()),
      ...alerts.families(),
      disks.family(),
    ],
    onFailure: (error) => log('metrics_failed', { reason: error.message }),
  });
  const { METRICS_HOST, METRICS_PORT } = state.settings;
  await page.listen(METRICS_HOST, METRICS_PORT).catch((error) => {
    throw portError('METRICS_PORT', METRICS_HOST, METRICS_PORT, error);
  });
  undo.push(() => page.close());
  return page;
}
