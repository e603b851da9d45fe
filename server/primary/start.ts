/**
 * The start of Weir, step by step. A database that is away is waited for: until it answers, the processes refuse what needs it, or spool it,
 * as in every outage.
 */
import { dirname, join } from 'node:path';
import { checkArchive } from '../archive/write.ts';
import { attachUnmigrated } from '../db/attach.ts';
import { lockDataDir } from '../db/data-dir.ts';
import { LockError } from '../db/lock.ts';
import { usualHorizon } from '../db/partitions.ts';
import { builtFile } from '../files/build.ts';
import { openLimiter } from '../ratelimit/open.ts';
import { loadSecretsKeys } from '../secrets/keys.ts';
import { probePort } from '../settings/port.ts';
import type { Configuration, Settings } from '../settings/read.ts';
import type { AdjustableLog, Log, LogDestination } from '../telemetry/log.ts';
import { Alerts, runAlerts } from './alerts.ts';
import { type Choice, chooseServingUser, findEntryFile, type ServingUser } from './forks.ts';
import { prepareDatabase, waitForDatabase } from './prepare.ts';
import { openServing, type State } from './serving.ts';
import type { Ending } from './signals.ts';
import { openSpool } from './spool.ts';
import type { Supervisor } from './supervisor.ts';
import type { UndoStack } from './undo.ts';
import { startWork } from './work.ts';

export interface StartParts {
  /** Reads the settings again. Throws SettingsError. */
  configure: () => Configuration;
  first: Configuration;
  log: AdjustableLog;
  destination: LogDestination;
  /** Receives the step that undoes each step of the start. */
  undo: UndoStack;
  ending: Ending;
}

interface Started {
  supervisor: Supervisor;
  /** Current settings. */
  settings: () => Settings;
  /** All processes serve. False: Weir ends before that. */
  isUp: boolean;
  /** The setup URL when users sign in with passwords and no administrator exists; otherwise null. */
  address: string | null;
}

/**
 * Resolves when Weir serves, or when it must end; with null when it ends before its processes are started. Rejects with a message for
 * people when it cannot start.
 */
export async function start(parts: StartParts): Promise<Started | null> {
  const { first, log, undo, ending } = parts;
  const state: State = { settings: first.settings, horizon: usualHorizon(Date.now()), isPrepared: false };
  const settings = () => state.settings;

  await checkAddresses(first.settings);
  const keys = loadSecretsKeys(first.settings);
  await ownDataDir(first.settings, undo);
  const { WORKERS, THREADS, database: kind } = first.settings;
  log('starting', { processes: WORKERS, threads: THREADS, database: kind.kind });

  const stopping = abortedBy(ending);
  const attached = await attach(first.settings, log, undo, stopping);
  if (attached === null) return null;
  const { conninfo, database, revive } = attached;
  const entryFile = findEntryFile(builtFile('server/main.js'), process.argv[1]);
  const choosing = chooseServingUser(join(dirname(entryFile), 'process/trial.js'), first.settings, conninfo);
  // A rejection is handled below, when the database is prepared.
  choosing.catch(() => {});
  const preparing = { conninfo, database, settings, keys, log };
  const outcome = await prepareDatabase(preparing);
  await checkLimiter(first.settings, log);
  const user = servingUser(await choosing, log);

  const shared = { state, conninfo, database, keys, log, undo };
  const spool = await openSpool({ settings, conninfo, database, keys, log, owner: user });
  undo.push(() => spool.stop());
  const alerts = new Alerts({ database, log, settings, spool, startedMs: Date.now() });
  const serving = await openServing({ ...parts, ...shared, entryFile, user, spool, alerts, revive });
  const { supervisor } = serving;
  // Also while Weir waits for the database: the spool may be in use.
  undo.push(runAlerts(alerts));

  if ('horizon' in outcome) serving.databasePrepared(outcome.horizon);
  const allServe = serving.begin();
  const prepared = 'horizon' in outcome ? outcome : await waitForDatabase(preparing, outcome, stopping);
  if (prepared === null) return { supervisor, settings, isUp: false, address: null };
  if (!state.isPrepared) serving.databasePrepared(prepared.horizon);
  startWork(shared, serving, spool);

  const { address } = prepared;
  const isUp = await Promise.race([allServe, ending.ended.then(() => false)]);
  if (isUp) log('listening', { url: settings().PUBLIC_URL, processes: supervisor.wanted });
  // Logged last, where it is visible. It goes to the log because without a terminal there is no other output.
  if (isUp && address !== null) log('setup_address', { url: address });
  return { supervisor, settings, isUp, address };
}

/** Rejects if another program has PORT, or ARCHIVE_DIR cannot be written. */
async function checkAddresses({ HOST, PORT, ARCHIVE_DIR }: Settings): Promise<void> {
  await probePort('PORT', HOST, PORT);
  if (ARCHIVE_DIR !== undefined) await checkArchive(ARCHIVE_DIR);
}

async function ownDataDir({ DATA_DIR }: Settings, undo: UndoStack): Promise<void> {
  const lock = await lockDataDir(DATA_DIR);
  undo.push(() => lock.release());
}

/** Null: Weir is to end, and the wait for another process that starts the embedded server was ended. */
async function attach(settings: Settings, log: Log, undo: UndoStack, stopping: AbortSignal) {
  const report = (line: string) => log('database_starting', { line });
  try {
    const attached = await attachUnmigrated(settings, report, { joinSmaller: false, stopping });
    undo.push(attached.detach);
    return attached;
  } catch (error) {
    if (error instanceof LockError && stopping.aborted) return null;
    throw error;
  }
}

/** Rejects if a shared rate-limit store does not answer: at run time it may be away, at the start it may be misspelled. */
async function checkLimiter(settings: Settings, log: Log): Promise<void> {
  const limiter = await openLimiter(settings, log, { requireStore: true });
  await limiter.close();
}

/** Null: the user of the primary. */
function servingUser(choice: Choice, log: Log): ServingUser | null {
  if (choice.kind === 'user') return choice.user;
  log('serving_as_root', { reason: choice.reason, fix: choice.fix });
  return null;
}

function abortedBy({ ended }: Ending): AbortSignal {
  const stopping = new AbortController();
  void ended.then(() => stopping.abort());
  return stopping.signal;
}
