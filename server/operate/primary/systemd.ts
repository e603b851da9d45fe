/** Reports to systemd (Type=notify, see sd_notify(3)) by the program systemd-notify: Node has no datagram sockets for Unix. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Log } from '../../base/telemetry/log.ts';

export interface ServiceEnvironment {
  NOTIFY_SOCKET?: string | undefined;
  /** Microseconds in which systemd expects a sign of life. */
  WATCHDOG_USEC?: string | undefined;
}

const run = promisify(execFile);

const TIMEOUT_MS = 10_000;

export class ServiceReports {
  readonly #environment: ServiceEnvironment;
  readonly #log: Log;
  /** Reports are sent one after the other: a reload must not end before it has begun. */
  #sent: Promise<void> = Promise.resolve();
  #watchdog: NodeJS.Timeout | undefined;
  #failed = false;

  constructor(environment: ServiceEnvironment, log: Log) {
    this.#environment = environment;
    this.#log = log;
  }

  /** Weir listens; also at the end of a reload. The watchdog begins. */
  ready(): void {
    this.#send('READY=1');
    const periodMs = Number(this.#environment.WATCHDOG_USEC) / 1_000;
    if (periodMs > 0) this.#watchdog ??= setInterval(() => this.#send('WATCHDOG=1'), periodMs / 2).unref();
  }

  reloading(): void {
    this.#send('RELOADING=1');
  }

  stopping(): void {
    clearInterval(this.#watchdog);
    this.#send('STOPPING=1');
  }

  #send(message: string): void {
    const { NOTIFY_SOCKET } = this.#environment;
    if (NOTIFY_SOCKET === undefined) return;
    const env = { PATH: process.env.PATH, NOTIFY_SOCKET };
    this.#sent = this.#sent.then(async () => {
      const sending = run('systemd-notify', [message], { env, timeout: TIMEOUT_MS });
      const reason = await sending.then(
        () => null,
        (error: Error) => error.message,
      );
      if (reason !== null && !this.#failed) this.#log('service_report_failed', { message, reason });
      this.#failed = reason !== null;
    });
  }
}

/** Takes the variables of systemd out of the environment, so that children do not report. */
export function takeServiceEnvironment(environment: NodeJS.ProcessEnv): ServiceEnvironment {
  const { NOTIFY_SOCKET, WATCHDOG_USEC } = environment;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete environment[name];
  return { NOTIFY_SOCKET, WATCHDOG_USEC };
}
