/**
 * The start of Weir, step by step. A database that is away is waited for, and so are a long migration and the rate-limit store: the
 * processes listen, and refuse what needs the database, or spool it, as in every outage.
 */
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { build, buildName, builtFile } from '../../base/files/build.ts';
import { lockDataDir } from '../../base/files/data-dir.ts';
import { LockError } from '../../base/files/lock.ts';
import { PortInUseError, probePort } from '../../base/settings/port.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { within } from '../../base/time/every.ts';
import type { StartWait } from '../../manage/api/status/health.ts';
import { OperatorError } from '../../model/fault.ts';
import { Cells, migrateAnsweringCells } from '../../store/cells/cells.ts';
import { attachDatabase, openCell } from '../../store/open.ts';
import { usualHorizon } from '../../store/retention/partitions.ts';
import { derivedKeys, loadSecretsKeys } from '../../store/secrets/keys.ts';
import { checkArchive } from '../backup/write.ts';
import { createAlerts } from './alerts.ts';
import { Disks } from './disks.ts';
import type { UndoStack } from './ending.ts';
import { findEntryFile } from './forks.ts';
import { type Prepared, type PrepareParts, prepareDatabase, waitForLimiter } from './prepare.ts';
import { Release } from './release.ts';
import { RunFolder } from './run-folder.ts';
import { openServing, type StartParts, type State } from './serving.ts';
import { findServingUser, ServingUserError, servingUserName, tryServingUser } from './serving-user.ts';
import { openSpool } from './spool.ts';
import type { Supervisor } from './supervisor.ts';
import { loggedMigrations, startWork } from './work.ts';

export interface Started {
  supervisor: Supervisor;
  settings: () => Settings;
  /** All processes serve. False: Weir ends before that. */
  isUp: boolean;
  /** The name of the user of the processes. */
  user: string;
  /** The setup URL when users sign in with passwords and no administrator exists; otherwise null. */
  address: string | null;
}

/** A start that takes longer than this listens before it is done: a probe of /healthz must not end a long migration. */
const LISTEN_AFTER_MS = 5_000;
const PORT_PROBE_MS = 100;

/**
 * Resolves when Weir serves, or when it must end; with null when it ends before its processes are started. Rejects with a message for
 * people when it cannot start.
 */
export async function start(parts: StartParts): Promise<Started | null> {
  const { first, log, undo, ending } = parts;
  const horizon = usualHorizon(Date.now());
  const state: State = { settings: first.settings, horizon, maintainedMs: 0, awaited: 'database' };
  const settings = () => state.settings;

  const stopping = ending.signal;
  await waitForPort(first.settings, log, stopping);
  if (stopping.aborted) return null;
  if (first.settings.ARCHIVE_DIR !== undefined) await checkArchive(first.settings.ARCHIVE_DIR);
  const keys = loadSecretsKeys(first.settings);
  const lock = await lockDataDir(first.settings.DATA_DIR);
  undo.push(() => lock.release());
  for (const setting of first.ignored) log('setting_ignored', { setting });
  for (const { name, meant } of first.unknown) log('setting_unknown', { setting: name, meant });
  const { WORKERS, THREADS, database: kind } = first.settings;
  log('starting', { build: buildName(build()), processes: WORKERS, threads: THREADS, database: kind.kind });

  const ended = ending.ended.then(() => null);
  const attached = await attach(first.settings, log, undo, stopping);
  if (attached === null) return null;
  const { conninfo, servingConninfo, revive } = attached;
  const cells = new Cells({ home: attached.database, conninfo, keys: derivedKeys(keys, 'cells'), open: openCell });
  cells.watch();
  undo.push(() => cells.close());
  const { database } = cells;
  const user = await findServingUser(first.settings);
  if (user === null && process.getuid!() === 0) log('serving_as_root');
  const source = findEntryFile(builtFile('server/main.js'), process.argv[1]);
  const release = new Release(source, first.settings.DATA_DIR, user);
  await release.renew();
  const trialFile = join(dirname(release.entryFile), 'operate/process/trial.js');
  const trying = user === null ? null : tryServingUser(trialFile, user, first.settings, conninfo, stopping);
  // A rejection is handled below, when the database is prepared.
  trying?.catch(() => {});
  // What the preparation waits for, and whether to listen before it is done.
  let becomesLong = () => {};
  const isLong = new Promise<void>((resolve) => {
    becomesLong = resolve;
  });
  let announce: (awaited: StartWait) => void = () => {};
  const onAwaited = (awaited: StartWait) => {
    state.awaited = awaited;
    announce(awaited);
    // Every start migrates, and most have nothing to do.
    if (awaited !== 'migrations') becomesLong();
  };
  const preparing = prepare({ conninfo, database: attached.database, settings, keys, log, onAwaited }, cells, stopping);
  // A rejection is handled below, when the processes exist. The pools close after the migration that an end cancels.
  const settled = preparing.catch(() => {});
  undo.push(() => settled);
  await trying?.catch(async (error: unknown) => {
    // When the database refuses the primary as well, `preparing` rejects with the cause, which is not the user.
    if (error instanceof ServingUserError && error.byDatabase) await Promise.race([preparing, ended]);
    throw error;
  });
  if (stopping.aborted) return null;

  const runFolder = new RunFolder(first.settings.DATA_DIR, user, log);
  undo.push(() => runFolder.close());
  const shared = { state, conninfo, database, cells, keys, log, undo };
  const spool = await openSpool({ settings, database, cells, keys, log, owner: user });
  undo.push(() => spool.stop());
  const disks = new Disks(settings);
  const alerts = createAlerts({ database, cells, log, settings, spool, disks, startedMs: Date.now() });
  const opened = { servingConninfo, release, user, spool, runFolder, alerts, disks, revive };
  const serving = await openServing({ ...parts, ...shared, ...opened });
  const { supervisor } = serving;
  const started = { supervisor, settings, user: servingUserName(user) };
  // Also while Weir waits for the database: the spool may be in use.
  undo.push(alerts.run());

  const early = await within(LISTEN_AFTER_MS, Promise.race([preparing, isLong, ended]));
  if (stopping.aborted) return null;
  if (early) await serving.databasePrepared(early.horizon);
  else announce = serving.awaits;
  const allServe = serving.begin();
  void allServe.then((serve) => serve && parts.service.ready());
  const prepared = await Promise.race([preparing, ended]);
  if (prepared === null) return { ...started, isUp: false, address: null };
  if (!early) await serving.databasePrepared(prepared.horizon);
  startWork(shared, serving, spool);

  const { address } = prepared;
  const isUp = await Promise.race([allServe, ending.ended.then(() => false)]);
  if (isUp) {
    log('listening', { url: settings().PUBLIC_URL, processes: supervisor.wanted, user: started.user });
    serving.noteBuild();
    // No process runs another copy: those of an earlier primary have ended.
    await release.removeOthers();
  }
  // Logged last, where it is visible. It goes to the log because without a terminal there is no other output.
  if (isUp && address !== null) log('setup_address', { url: address });
  return { ...started, isUp, address };
}

/** Attaches to the database. Null: Weir is stopping, which ended the wait for another process that starts the embedded server. */
async function attach(settings: Settings, log: Log, undo: UndoStack, stopping: AbortSignal) {
  const report = (line: string) => log('database_starting', { line });
  try {
    const attached = await attachDatabase(settings, report, { joinSmaller: false, stopping });
    undo.push(attached.detach);
    return attached;
  } catch (error) {
    if (error instanceof LockError && stopping.aborted) return null;
    throw error;
  }
}

/** Resolves with null when Weir is stopping. Rejects when only another setting would help. */
async function prepare(parts: PrepareParts, cells: Cells, stopping: AbortSignal): Promise<Prepared | null> {
  const prepared = await prepareDatabase(parts, stopping);
  // A backup of one cell must not hold up the start: runCells migrates what is left.
  const migrations = loggedMigrations(parts.log, false, stopping);
  if (prepared !== null) await migrateAnsweringCells(cells, migrations).catch(() => {});
  await waitForLimiter(parts.settings(), parts.log, () => parts.onAwaited('rate_limit_store'), stopping);
  return stopping.aborted ? null : prepared;
}

/**
 * Resolves when PORT is free, or `stopping` aborts. Orphans, serving processes whose primary was killed, end as soon as they notice, and
 * hold PORT until then: waits for them at most DRAIN_SECONDS, in which they would have answered their requests. Rejects with OperatorError
 * when another program has the port, or orphans keep it.
 */
async function waitForPort(
  { HOST, PORT, DRAIN_SECONDS }: Pick<Settings, 'HOST' | 'PORT' | 'DRAIN_SECONDS'>,
  log: Log,
  stopping: AbortSignal,
): Promise<void> {
  const endMs = performance.now() + DRAIN_SECONDS * 1000;
  for (let isLogged = false; !stopping.aborted; isLogged = true) {
    // Before the probe: an orphan that ends between the two has freed the port.
    const orphans = await findOrphans();
    const error = await probePort('PORT', HOST, PORT).then(
      () => null,
      (error: Error) => error,
    );
    if (error === null) return;
    if (!(error instanceof PortInUseError) || orphans.length === 0) throw error;
    const processes = orphans.join(' ');
    if (performance.now() >= endMs)
      throw new OperatorError(
        `PORT ${PORT} on ${HOST} is still in use after ${DRAIN_SECONDS} s (DRAIN_SECONDS), and processes of a Weir whose primary was killed have not ended: ${processes}`,
        `kill -9 ${processes}`,
      );
    if (!isLogged) log('orphans_awaited', { processes: orphans });
    await delay(PORT_PROBE_MS, undefined, { signal: stopping }).catch(() => {});
  }
}

/** Serving processes of any installation on this machine whose parent is not a Node process. Empty without /proc. */
async function findOrphans(): Promise<number[]> {
  const pids = (await readdir('/proc').catch(() => [])).map(Number).filter((pid) => pid > 0);
  const judged = await Promise.all(
    pids.map(async (pid) => {
      const isServing = (await argumentsOf(pid)).at(-1)?.endsWith('/server/main.js') ?? false;
      if (!isServing) return false;
      const parent = /^PPid:\s+(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''))?.[1];
      if (parent === undefined) return false;
      const [program = ''] = await argumentsOf(Number(parent));
      return basename(program) !== basename(process.execPath);
    }),
  );
  return pids.filter((_, index) => judged[index]);
}

/** The command line of a process; empty for one that has ended. */
async function argumentsOf(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return text.split('\0').slice(0, -1);
}
