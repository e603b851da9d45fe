/** The primary: starts Weir, keeps it running until a signal or a permanent failure, and shuts down in reverse order. */
import { setTimeout as delay } from 'node:timers/promises';
import { weirCommand } from '../../base/command/name.ts';
import type { LoadedSettings, Settings } from '../../base/settings/read.ts';
import { createLog, openDestination } from '../../base/telemetry/log.ts';
import { UndoStack, waitForEnd } from './ending.ts';
import type { StartParts } from './serving.ts';
import { type Started, start } from './start.ts';
import { type ServiceEnvironment, ServiceReports } from './systemd.ts';

/**
 * Runs Weir until a signal or a permanent failure; resolves with the exit code. When Weir cannot start, undoes all completed steps and
 * rejects with a message for people.
 * @param configure reads the settings at the start and at each HUP. Throws SettingsError.
 * @param environment of systemd, when Weir runs as its service
 */
export async function runPrimary(
  configure: () => LoadedSettings,
  terminal: boolean,
  environment: ServiceEnvironment = {},
): Promise<number> {
  const first = configure();
  let isGreeted = false;
  const { readable } = terminal ? await import('../../base/telemetry/readable.ts') : { readable: null };
  // Before the banner, which has the setup URL, a terminal shows that Weir starts, and what needs a person.
  const isShown = (line: string) =>
    isGreeted || line.includes('"event":"starting"') || !/^\{"level":30,|"event":"setup_address"/.test(line);
  const destination = openDestination(1, readable && ((line) => (isShown(line) ? readable(line) : '')));
  const log = createLog(destination, first.settings.LOG_LEVEL, { place: 'primary' });
  const undo = new UndoStack();
  process.on('uncaughtException', (error) => {
    log('crash', { err: error });
    void destination.finish().then(() => process.exit(1));
  });

  const ending = waitForEnd(terminal);
  const service = new ServiceReports(environment, log);
  let code = 1;
  try {
    const greetOnce = (started: Started | null) => {
      isGreeted = true;
      if (started?.isUp && terminal) greet(first.settings, started, process.stdout);
    };
    code = await serveUntilEnd({ configure, first, log, destination, undo, ending, service }, greetOnce);
  } finally {
    // Ends what a start that failed still waits for, such as the database.
    ending.end(code, 'stopped');
    await undo.run().catch((error: Error) => {
      log('stop_failed', { reason: error.message });
      code = 1;
    });
    ending.stop();
    log('stopped');
    await destination.finish();
  }
  return code;
}

/** Resolves with the exit code when every process has ended; `undo` then stops the rest. */
async function serveUntilEnd(parts: StartParts, onStarted: (started: Started | null) => void): Promise<number> {
  const { log, ending } = parts;
  const started = await start(parts);
  onStarted(started);
  if (started === null) return (await ending.ended).code;
  const { supervisor, settings } = started;
  const { code, reason } = await ending.ended;
  log('draining', { reason });
  parts.service.stopping();
  supervisor.leave();
  if (code === 0) await delay(settings().DRAIN_DELAY_SECONDS * 1000);
  await supervisor.stop();
  return code;
}

/** Prints Weir's URL, its user and the next step. */
function greet(
  settings: Settings,
  { address: setupAddress, user }: Pick<Started, 'address' | 'user'>,
  out: { write(text: string): unknown },
): void {
  out.write(
    [
      '',
      `  Weir receives webhooks at ${settings.FRONTEND_PUBLIC_API_URL}`,
      `  Pages:                    ${settings.PUBLIC_URL}`,
      `  Serves as the user:       ${user}`,
      '',
      ...(setupAddress === null ? [] : [`  Create the administrator: ${setupAddress}`, '']),
      `  Create a webhook:   ${weirCommand()} webhook add --name github --scheme github --generate-secret`,
      `  Send a test event:  ${weirCommand()} send URL --secret SECRET`,
      `  Metrics:            http://${settings.METRICS_HOST}:${settings.METRICS_PORT}/metrics`,
      '  Stop:               Ctrl-C',
      '',
      '',
    ].join('\n'),
  );
}
