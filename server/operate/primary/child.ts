/** The primary's handle to one serving process: forks it, sends messages, waits for answers, ends it. */
import cluster, { type Worker } from 'node:cluster';
import type { Build } from '../../base/files/build.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log, LogDestination } from '../../base/telemetry/log.ts';
import { within } from '../../base/time/every.ts';
import type { AskDoctor } from '../../manage/api/status/doctor.ts';
import type { Sample } from '../../manage/live/counters.ts';
import { forwardOutput, processEnvironment } from './forks.ts';
import {
  type Control,
  type FromProcess,
  type MetricsSnapshot,
  PROTOCOL,
  type PrimaryOrder,
  type Refused,
  type SentOrder,
  type ToProcess,
} from './messages.ts';

/** How processes are started. Each object is a separate generation of processes, even when its values are equal. */
export interface ProcessPlan {
  settings: Settings;
  /** Returns the current start order; the horizon changes over time. */
  order: () => SentOrder;
}

export interface ChildParts {
  /** Changes to the primary's environment for the process. */
  environment: NodeJS.ProcessEnv;
  log: Log;
  /** Receives the process's log lines. */
  destination: LogDestination;
  /** Receives the counts of the process up to now. */
  onSample: (pid: number, sample: Sample) => void;
  /** Returns the results of `weir doctor` for this installation. */
  askDoctor: AskDoctor;
  /** Carries out the order of a command. */
  onOrder: (order: PrimaryOrder) => Promise<Control | Refused>;
}

/** Time that a process has to end after its drain before it is killed. */
const EXIT_GRACE_MS = 2_000;
const LAST_WORDS_TIMEOUT_MS = 1_000;

export class Child {
  readonly plan: ProcessPlan;
  /** Order: `starting`, `serving`, `leaving`, `ended`. Every state but the last may be skipped. */
  state: 'starting' | 'serving' | 'leaving' | 'ended' = 'starting';
  lastSnapshot: MetricsSnapshot | null = null;
  /** The build that the process runs; null until it has reported it. */
  build: Build | null = null;
  /** The process reported that it cannot serve and that a retry would not help. */
  refused = false;
  /** Why the process ended: exit code, signal, or a sentence. */
  reason: string | number = '';
  readonly #startedMs = performance.now();
  readonly #worker: Worker;
  readonly #parts: ChildParts;
  readonly #on: { ready: () => void; ended: () => void };
  readonly #ended: Promise<void>;
  readonly #readyTimer: NodeJS.Timeout;
  readonly #questions = new Map<number, () => void>();
  #asked = 0;
  /** Checks without any message of the process. Checks are counted, not time: the primary may have been stopped for longer itself. */
  #silentChecks = 0;

  /** Forks the process. */
  constructor(plan: ProcessPlan, parts: ChildParts, on: { ready: () => void; ended: () => void }) {
    this.plan = plan;
    this.#parts = parts;
    this.#on = on;
    const { HEADER_BYTES_MAX, PROCESS_READY_SECONDS: seconds } = plan.settings;
    this.#worker = cluster.fork({ ...processEnvironment(process.env, HEADER_BYTES_MAX), ...parts.environment });
    forwardOutput(this.#worker.process, parts);
    this.#readyTimer = setTimeout(
      () => this.#fail(`it was not ready within ${seconds} s (PROCESS_READY_SECONDS)`),
      seconds * 1000,
    );
    this.#worker.on('message', (message: FromProcess) => this.#onMessage(message));
    this.#ended = new Promise((resolve) => {
      const end = (reason: string | number) => {
        if (this.state === 'ended') return;
        this.#onEnd(reason);
        resolve();
      };
      this.#worker.once('exit', (code, signal) => end(signal ?? code));
      // A process that could not be forked emits no exit event.
      this.#worker.on('error', (error) => this.pid === undefined && end(error.message));
    });
  }

  get pid(): number | undefined {
    return this.#worker.process.pid;
  }

  get livedMs(): number {
    return performance.now() - this.#startedMs;
  }

  send(message: ToProcess): void {
    if (this.#worker.isConnected()) this.#worker.send(message, () => {});
  }

  /** Resolves when answered, when the process ends, or after `timeoutMs`; at once when the process is not serving yet. */
  async ask(question: (number: number) => ToProcess, timeoutMs: number): Promise<void> {
    const number = this.#asked++;
    this.send(question(number));
    if (this.state === 'starting' || this.state === 'ended') return;
    await within(timeoutMs, new Promise<void>((resolve) => this.#questions.set(number, resolve)));
    this.#questions.delete(number);
  }

  /** Kills a serving process that hangs. Call it once a second, together with a question. */
  checkSilence(): void {
    const { PROCESS_SILENT_SECONDS: seconds } = this.plan.settings;
    if (this.state === 'serving' && this.#silentChecks++ === seconds)
      this.#fail(`it did not answer for ${seconds} s (PROCESS_SILENT_SECONDS)`);
  }

  /** Drains the process, and kills it on timeout. Resolves when it has ended. */
  async leave(): Promise<void> {
    if (this.state === 'leaving' || this.state === 'ended') return this.#ended;
    const drainMs = this.state === 'serving' ? this.plan.settings.DRAIN_SECONDS * 1000 : 0;
    const lastWords = [
      this.ask((number) => ({ kind: 'collect_metrics', number }), LAST_WORDS_TIMEOUT_MS),
      this.ask((number) => ({ kind: 'take_sample', number }), LAST_WORDS_TIMEOUT_MS),
    ];
    this.state = 'leaving';
    clearTimeout(this.#readyTimer);
    await Promise.all(lastWords);
    this.send({ kind: 'drain' });
    const killer = setTimeout(() => this.#kill(), drainMs + EXIT_GRACE_MS);
    await this.#ended;
    clearTimeout(killer);
  }

  #onMessage(message: FromProcess): void {
    const { onSample, askDoctor, onOrder } = this.#parts;
    this.#silentChecks = 0;
    if (message.kind === 'awaiting_order') this.#onAwaitingOrder(message);
    else if (message.kind === 'listening') this.#onListening();
    else if (message.kind === 'refused') {
      this.refused = true;
      this.reason = message.message;
    } else if (message.kind === 'metrics') this.lastSnapshot = message.snapshot;
    else if (message.kind === 'sample') onSample(this.pid!, message.sample);
    else if (message.kind === 'ask_doctor') void askDoctor().then((checkup) => this.send({ kind: 'checkup', checkup }));
    else if (message.kind === 'order') {
      const { ticket, order } = message;
      void onOrder(order).then((answer) => this.send({ kind: 'ordered', ticket, answer }));
    }
    if ('number' in message) this.#questions.get(message.number)?.();
  }

  #onAwaitingOrder({ protocol, build }: Extract<FromProcess, { kind: 'awaiting_order' }>): void {
    this.build = build;
    if (protocol === PROTOCOL) this.send({ kind: 'start', order: this.plan.order() });
    else
      this.#fail(
        `the build on disk cannot run under this primary (protocol ${protocol}, here ${PROTOCOL}); restart Weir to change builds`,
      );
  }

  #onListening(): void {
    if (this.state !== 'starting' || this.reason !== '') return;
    this.state = 'serving';
    clearTimeout(this.#readyTimer);
    this.#parts.log('process_up', { process: this.pid, ready_ms: Math.round(this.livedMs) });
    this.#on.ready();
  }

  #fail(reason: string): void {
    this.reason = reason;
    this.#kill();
  }

  #kill(): void {
    this.#worker.process.kill('SIGKILL');
  }

  #onEnd(reason: string | number): void {
    clearTimeout(this.#readyTimer);
    if (this.reason === '') this.reason = reason;
    for (const answered of this.#questions.values()) answered();
    this.#on.ended();
    this.state = 'ended';
  }
}

/** The result of a rolling restart: `replaced` processes are new, `kept` processes are old and keep serving. */
export type RestartOutcome = { replaced: number } & ({ ok: true } | { ok: false; reason: string; kept: number });

/** The result of replacing one process; `successor` is the new one. */
export type Replacement<Process = Child> = { ok: true; successor: Process } | { ok: false; reason: string };

/** A rolling restart, or the replacement of one process, under way. */
export interface Restart {
  plan: ProcessPlan;
  /** Processes still to replace. */
  stale: Set<Child>;
  replaced: number;
  /** The latest process of `plan` that serves. */
  successor?: Child;
  done: (outcome: RestartOutcome) => void;
}

/** Describes the failure of a new process for people. */
export function failureOf({ pid, reason }: Child): string {
  if (typeof reason === 'number') return `the new process ${pid} ended with exit code ${reason}`;
  return /^SIG[A-Z0-9]+$/.test(reason) ? `the new process ${pid} was ended by ${reason}` : reason;
}
