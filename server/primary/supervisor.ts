/** Keeps the wanted number of serving processes: forks, replaces, scales, restarts one by one. */
import cluster, { type Worker } from 'node:cluster';
import { backoffMs } from '../core/backoff.ts';
import type { Sample } from '../live/counters.ts';
import type { Log, LogDestination } from '../log.ts';
import type { FromProcess, MetricsSnapshot, StartOrder, ToProcess } from '../messages.ts';

interface SupervisorOptions {
  /** Compiled entry point of a process. */
  entryFile: string;
  processes: number;
  drainMs: number;
  /** The order of this moment: the horizon moves. */
  order: () => StartOrder;
  log: Log;
  /** Takes the processes' own log lines. */
  destination: LogDestination;
  /** What a process counted up to now. */
  onSample: (pid: number, sample: Sample) => void;
  /** A process ended, by itself or as it was told; its last metrics, so that totals are kept. */
  onEnded: (pid: number, lastSnapshot: MetricsSnapshot | null, byItself: boolean) => void;
  /** Nothing helps: the supervisor has given up. */
  onHopeless: (reason: string) => void;
}

interface Member {
  worker: Worker;
  listening: Promise<boolean>;
  leaving: boolean;
  lastSnapshot: MetricsSnapshot | null;
}

/** A process that dies this soon after its start suggests that the next one will too. */
const QUICK_DEATH_MS = 3_000;
const QUICK_DEATHS_MAX = 10;
const REPLACE = { firstMs: 100, maxMs: 5_000 };
const METRICS_TIMEOUT_MS = 1_000;
const APPLIED_TIMEOUT_MS = 900;
/** Of each second; a process that is later counts in the next one. */
const SAMPLE_TIMEOUT_MS = 250;
/**
 * Helper threads of the collector take cores from Postgres: without them a request costs about 9 % less CPU. A larger nursery
 * (--max-semi-space-size=32) made no difference beside that, and cost 28 MB a process (A/B, 7 rounds each, two cores).
 *
 * Allocation sites whose objects outlive a scavenge get the old space as their own. Those of a request do so when the machine is
 * slow for a moment, and from then on its garbage waits for a mark-compact: 200 to 235 MB in 4 of 15 runs, 150 to 163 MB in 9 of 9 without.
 */
const gcFlags = ['--single-threaded-gc', '--no-allocation-site-pretenuring'];
/** How long a process may take to end after its drain, before it is killed. */
const EXIT_GRACE_MS = 2_000;

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #members = new Map<number, Member>();
  /** Open questions by number: who was asked, and what to call once there is an answer or will never be one. */
  readonly #questions = new Map<number, { member: Member; settle: () => void }>();
  #wanted: number;
  #stopping = false;
  /** It has given up, and has said so once: no process is forked any more. */
  #hopeless = false;
  #quickDeaths = 0;
  #asked = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#wanted = options.processes;
    cluster.setupPrimary({
      exec: options.entryFile,
      args: [],
      execArgv: gcFlags,
      silent: true,
      serialization: 'advanced',
    });
  }

  get size(): number {
    return this.#members.size;
  }

  /** Forks all processes; resolves with true when every one of them listens, with false when one died before that. */
  async start(): Promise<boolean> {
    const listening = await Promise.all(Array.from({ length: this.#wanted }, () => this.#fork().listening));
    return listening.every(Boolean);
  }

  /** Tells all processes. */
  broadcast(message: ToProcess): void {
    for (const member of this.#members.values()) send(member, message);
  }

  /** Resolves when every process that listens has applied the change, or soon after if one does not answer. */
  async applyEverywhere(payload: string): Promise<void> {
    await this.#askAll((number) => ({ kind: 'change', number, payload }), APPLIED_TIMEOUT_MS);
  }

  /** Fresh metrics of all processes; of one that does not answer in time, its last known ones. */
  async collectMetrics(): Promise<MetricsSnapshot[]> {
    await this.#askAll((number) => ({ kind: 'collect_metrics', number }), METRICS_TIMEOUT_MS);
    return [...this.#members.values()].flatMap(({ lastSnapshot }) => (lastSnapshot === null ? [] : [lastSnapshot]));
  }

  /** Has `onSample` told what each process counted; of one that does not answer in time, later. */
  async takeSamples(): Promise<void> {
    await this.#askAll((number) => ({ kind: 'take_sample', number }), SAMPLE_TIMEOUT_MS);
  }

  /** One process more or fewer, never fewer than one. */
  scale(change: 1 | -1): void {
    if (this.#stopping || this.#wanted + change < 1) return;
    this.#wanted += change;
    this.#options.log('processes_changed', { processes: this.#wanted });
    if (change === 1) this.#fork();
    else void this.#retire([...this.#members.values()].filter((member) => !member.leaving).at(-1));
  }

  /** Replaces every process: the new one listens before the old one stops to. */
  async restart(): Promise<void> {
    this.#options.log('restarting', { processes: this.#wanted });
    for (const old of [...this.#members.values()].filter((member) => !member.leaving)) {
      if (this.#stopping) return;
      if (await this.#fork().listening) await this.#retire(old);
    }
    this.#options.log('restarted', { processes: this.#wanted });
  }

  /** Drains all processes and waits for their end; kills what does not end in time. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all([...this.#members.values()].map((member) => this.#retire(member)));
  }

  #fork(): Member {
    const startedMs = performance.now();
    const worker = cluster.fork();
    forwardOutput(worker, this.#options);
    const member: Member = { worker, listening: Promise.resolve(false), leaving: false, lastSnapshot: null };
    this.#members.set(worker.id, member);
    member.listening = new Promise((resolve) => {
      worker.on('message', (message: FromProcess) => {
        if (message.kind === 'listening') {
          this.#options.log('process_up', { process: worker.process.pid });
          resolve(true);
        }
        this.#onMessage(member, message);
      });
      worker.once('exit', (code, signal) => {
        resolve(false);
        this.#onExit(member, performance.now() - startedMs, signal ?? code);
      });
    });
    worker.on('error', () => {});
    return member;
  }

  #onMessage(member: Member, message: FromProcess): void {
    if (message.kind === 'awaiting_order') send(member, { kind: 'start', order: this.#options.order() });
    else if (message.kind === 'refused') this.#giveUp(message.message);
    else if (message.kind === 'metrics') member.lastSnapshot = message.snapshot;
    else if (message.kind === 'sample') this.#options.onSample(member.worker.process.pid!, message.sample);
    if ('number' in message) this.#questions.get(message.number)?.settle();
  }

  #onExit(member: Member, livedMs: number, reason: string | number): void {
    this.#members.delete(member.worker.id);
    for (const question of this.#questions.values()) if (question.member === member) question.settle();
    const byItself = !member.leaving && !this.#stopping;
    this.#options.onEnded(member.worker.process.pid!, member.lastSnapshot, byItself);
    if (!byItself) return;
    this.#options.log('process_died', { process: member.worker.process.pid, reason, lived_ms: Math.round(livedMs) });
    this.#quickDeaths = livedMs < QUICK_DEATH_MS ? this.#quickDeaths + 1 : 0;
    if (this.#quickDeaths >= QUICK_DEATHS_MAX)
      return this.#giveUp(
        `${QUICK_DEATHS_MAX} processes in a row died within ${QUICK_DEATH_MS / 1000} s of their start (last: ${reason})`,
      );
    const waitMs = this.#quickDeaths === 0 ? 0 : backoffMs(this.#quickDeaths - 1, REPLACE, Math.random());
    setTimeout(() => {
      if (!this.#stopping && !this.#hopeless && this.#staying() < this.#wanted) this.#fork();
    }, waitMs);
  }

  #staying(): number {
    return [...this.#members.values()].filter((member) => !member.leaving).length;
  }

  #giveUp(reason: string): void {
    if (this.#stopping || this.#hopeless) return;
    this.#hopeless = true;
    this.#options.log('crash_loop', { reason });
    this.#options.onHopeless(reason);
  }

  async #retire(member: Member | undefined): Promise<void> {
    if (member === undefined || !this.#members.has(member.worker.id)) return;
    member.leaving = true;
    const exited = new Promise<void>((resolve) => member.worker.once('exit', () => resolve()));
    await Promise.all([
      this.#ask(member, (number) => ({ kind: 'collect_metrics', number }), METRICS_TIMEOUT_MS),
      this.#ask(member, (number) => ({ kind: 'take_sample', number }), METRICS_TIMEOUT_MS),
    ]);
    send(member, { kind: 'drain' });
    const killer = setTimeout(() => member.worker.process.kill('SIGKILL'), this.#options.drainMs + EXIT_GRACE_MS);
    await exited;
    clearTimeout(killer);
  }

  async #askAll(question: (number: number) => ToProcess, timeoutMs: number): Promise<void> {
    await Promise.all([...this.#members.values()].map((member) => this.#ask(member, question, timeoutMs)));
  }

  /** Resolves when it is answered, when the process ends, or after `timeoutMs`. */
  #ask(member: Member, question: (number: number) => ToProcess, timeoutMs: number): Promise<void> {
    const number = this.#asked++;
    return new Promise((resolve) => {
      const settle = () => {
        clearTimeout(timer);
        this.#questions.delete(number);
        resolve();
      };
      const timer = setTimeout(settle, timeoutMs);
      this.#questions.set(number, { member, settle });
      send(member, question(number));
    });
  }
}

function send({ worker }: Member, message: ToProcess): void {
  if (worker.isConnected()) worker.send(message, () => {});
}

/** Log lines pass as they are; anything else that a process writes becomes a log line, so that the stream stays JSON. */
function forwardOutput(worker: Worker, { destination, log }: SupervisorOptions): void {
  const { stdout, stderr } = worker.process;
  eachLine(stdout!, (line) => {
    if (line.startsWith('{')) destination.write(`${line}\n`);
    else if (line !== '') log('process_output', { process: worker.process.pid, line });
  });
  eachLine(stderr!, (line) => {
    if (line !== '') log('process_output', { process: worker.process.pid, line });
  });
}

function eachLine(stream: NodeJS.ReadableStream, take: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    for (const line of lines) take(line);
  });
  stream.on('end', () => take(rest));
}
