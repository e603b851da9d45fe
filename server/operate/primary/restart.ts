/** HUP and `weir reload`: reads the settings again, and replaces every process with one that has them and runs the code on disk. */
import { weirCommand } from '../../base/command/name.ts';
import { build } from '../../base/files/build.ts';
import { openLimiter } from '../../base/ratelimit/open.ts';
import { changedSettings, type LoadedSettings, type Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import type { Setting } from '../../base/settings/values.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { coalesced } from '../../base/time/every.ts';
import { ensureAdministrator } from '../../manage/auth/setup.ts';
import { OperatorError } from '../../model/fault.ts';
import type { Database } from '../../store/connect/pool.ts';
import { checkConnectionBudget } from '../../store/open.ts';
import { checkArchive } from '../backup/write.ts';
import type { RestartOutcome } from './child.ts';
import type { Children } from './children.ts';
import type { Control, PrimaryOrder, Refused, RestartReport } from './messages.ts';
import type { Supervisor } from './supervisor.ts';

interface RestartParts {
  /** Returns the active settings. */
  current: () => Settings;
  build: () => string;
  /** Reads the settings again. Throws SettingsError. */
  read: () => LoadedSettings;
  /** Replaces all processes with new ones that use these settings. */
  replace: (next: LoadedSettings) => Promise<RestartOutcome>;
  database: Database;
  log: Log;
  onBegun: () => void;
  onDone: (outcome: 'restarted' | 'failed') => void;
}

/** One restart runs at a time: all requests during a restart are merged into one further restart. */
export function createRestarts(parts: RestartParts) {
  const { log, build, onBegun, onDone } = parts;
  let last: RestartReport | null = null;
  const restart = coalesced(async () => {
    const startedMs = performance.now();
    const number = (last?.number ?? 0) + 1;
    const report: RestartReport = { number, state: 'running', changed: [], fixed: [], changeable: true, replaced: 0 };
    last = report;
    log('restarting', { build: build() });
    onBegun();
    const { ok, ...outcome } = await tryRestart(parts, report);
    const fields = { build: build(), ...outcome, took_ms: Math.round(performance.now() - startedMs) };
    const state = ok ? 'restarted' : 'failed';
    last = { ...report, ...outcome, state };
    log(ok ? 'restarted' : 'restart_failed', fields);
    onDone(state);
  });
  return {
    /** The last restart, which may be under way. */
    get last() {
      return last;
    },
    /** Requests a restart, and returns its number. */
    request() {
      // It never rejects.
      void restart();
      return (last?.number ?? 0) + 1;
    },
  };
}

/** Runs one restart. The outcome lacks `kept` when no process was started. @param report gets what is known of the settings */
async function tryRestart(
  parts: RestartParts,
  report: RestartReport,
): Promise<RestartOutcome | { ok: false; reason: string; replaced: number }> {
  try {
    const next = parts.read();
    const changed = changedSettings(parts.current(), next.settings);
    const fixed = changed.filter((name) => (settingTable as Record<string, Setting>)[name]!.fixed);
    const changeable = changed.length > 0 || next.fromFile.length > 0;
    Object.assign(report, { changed, fixed, changeable });
    refuseFixed(fixed);
    await check(changed, next.settings, parts);
    if (changed.length > 0) parts.log('settings_changed', { settings: changed });
    if (!changeable) parts.log('settings_unchangeable');
    return await parts.replace(next);
  } catch (error) {
    return { ok: false, reason: (error as Error).message.replaceAll('\n', '; '), replaced: 0 };
  }
}

function refuseFixed(fixed: string[]): void {
  if (fixed.length === 0) return;
  const verb = fixed.length === 1 ? 'has' : 'have';
  throw new OperatorError(
    `${fixed.join(', ')} ${verb} changed, which needs a restart of Weir`,
    `stop and start it, or set the earlier value and run: ${weirCommand()} reload`,
  );
}

/** Repeats the checks of the start for changed settings. Rejects when the new settings cannot be used. */
async function check(changed: string[], next: Settings, { database, log }: RestartParts): Promise<void> {
  const has = (pattern: RegExp) => changed.some((name) => pattern.test(name));
  if (has(/^(WORKERS|DB_POOL_MAX)$/)) await checkConnectionBudget(database, next);
  if (has(/^ARCHIVE_DIR$/) && next.ARCHIVE_DIR !== undefined) await checkArchive(next.ARCHIVE_DIR);
  if (has(/^ADMIN_/) && next.AUTH_MODE === 'local') await ensureAdministrator(database, next);
  if (has(/^RATE_LIMIT_BACKEND$|_SHARED_URL$/)) await (await openLimiter(next, log, { requireStore: true })).close();
}

interface ControlParts {
  supervisor: Supervisor;
  children: Children;
  restarts: ReturnType<typeof createRestarts>;
  settings: () => Settings;
  database: Database;
}

/** Carries out the order of a command. */
export async function carryOut(order: PrimaryOrder, parts: ControlParts): Promise<Control | Refused> {
  const { supervisor, children, restarts } = parts;
  try {
    if (typeof order === 'number') await setProcesses(order, parts);
    const requested = order === 'reload' ? restarts.request() : undefined;
    return {
      primary: build(),
      wanted: supervisor.wanted,
      processes: children.all().map(({ pid = 0, state, build, livedMs }) => {
        return { pid, state, build, started_at: new Date(Date.now() - livedMs).toISOString() };
      }),
      ...(requested === undefined ? {} : { requested }),
      restart: restarts.last,
    };
  } catch (error) {
    return { refused: (error as Error).message };
  }
}

/** Rejects with OperatorError when the database does not allow the connections of more processes, or Weir is stopping. */
async function setProcesses(wanted: number, { supervisor, settings, database }: ControlParts): Promise<void> {
  if (wanted > supervisor.wanted) await checkConnectionBudget(database, { ...settings(), WORKERS: wanted });
  supervisor.setWanted(wanted);
  if (supervisor.wanted !== wanted) throw new OperatorError('Weir is stopping');
}
