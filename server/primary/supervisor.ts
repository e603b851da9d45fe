/**
 * Keeps the wanted number of serving processes. Signals and deaths only change what is wanted or what there is; `#step` compares the two and
 * forks or retires, so that requests that overlap end in the wanted number. At most one process more than wanted exists, those that
 * leave included: that many database connections are there (see connectionsNeeded).
 *
 *     starting ──listens──▶ serving ──told to leave──▶ leaving ──▶ ended
 *         └── dies, refuses, or is not ready in time: replaced after a pause, or, in a rolling restart, the end of that restart
 */

import type { Sample } from '../live/counters.ts';
import { backoffMs } from '../net/backoff.ts';
import type { Log, LogDestination } from '../telemetry/log.ts';
import { Member, type Plan } from './member.ts';
import type { Members } from './members.ts';
import type { Checkup, MetricsSnapshot } from './messages.ts';

interface SupervisorOptions {
  /** Filled and emptied here. */
  members: Members;
  plan: Plan;
  /** Changes of our environment for the processes. */
  environment: NodeJS.ProcessEnv;
  log: Log;
  /** Takes the processes' own log lines. */
  destination: LogDestination;
  /** What a process counted up to now. */
  onSample: (pid: number, sample: Sample) => void;
  /** What `weir doctor` says of this installation. */
  askDoctor: () => Promise<Checkup>;
  /** A process ended, by itself or as it was told; its last metrics, so that totals are kept. */
  onEnded: (pid: number, lastSnapshot: MetricsSnapshot | null, byItself: boolean) => void;
  /** Nothing helps: the supervisor has given up. */
  onHopeless: (reason: string) => void;
}

/** What became of a rolling restart; `replaced` processes are new, `kept` ones are old and serve on. */
export type RestartOutcome = { replaced: number } & ({ ok: true } | { ok: false; reason: string; kept: number });

interface Restart {
  plan: Plan;
  /** Processes that have to be replaced. */
  stale: Set<Member>;
  replaced: number;
  settle: (outcome: RestartOutcome) => void;
}

/** A process that dies this soon after its start suggests that the next one will too. */
const QUICK_DEATH_MS = 3_000;
const QUICK_DEATHS_MAX = 10;
const REPLACE = { firstMs: 100, maxMs: 5_000 };
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #members: Members;
  /** The plan that processes were seen to serve with: a process that dies is replaced by it. */
  #plan: Plan;
  #wanted: number;
  #restart: Restart | null = null;
  #phase: 'running' | 'leaving' | 'stopping' | 'hopeless' = 'running';
  #quickDeaths = 0;
  /** While it runs, nothing is forked. */
  #pause: NodeJS.Timeout | null = null;
  #started: (ok: boolean) => void = () => {};

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#members = options.members;
    this.#plan = options.plan;
    this.#wanted = options.plan.processes;
  }

  get wanted(): number {
    return this.#wanted;
  }

  /** Forks all processes; resolves with true when the wanted number serves, with false when it has given up or was stopped. */
  start(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#started = resolve;
      this.#step();
    });
  }

  /** One process more or fewer, never fewer than one. */
  scale(change: 1 | -1): void {
    if (this.#phase !== 'running' || this.#wanted + change < 1) return;
    this.#want(this.#wanted + change);
    this.#step();
  }

  /**
   * Replaces every process by one of `plan`: each new one listens before an old one leaves. A new one that fails ends the restart, and the
   * old ones that are left serve on. One restart at a time.
   */
  restart(plan: Plan): Promise<RestartOutcome> {
    return new Promise((settle) => {
      this.#restart = { plan, stale: new Set(this.#members.in('serving')), replaced: 0, settle };
      // They have accepted nothing yet, and may hang.
      for (const member of this.#members.in('starting')) void member.leave();
      if (this.#phase === 'running') this.#step();
      else this.#endRestart('Weir is stopping');
    });
  }

  /** readyz fails from now on; all is served, and processes that die are replaced. */
  leave(): void {
    if (this.#phase === 'running') this.#phase = 'leaving';
    this.#endRestart('Weir is stopping');
    this.#members.broadcast({ kind: 'leaving' });
  }

  /** Drains all processes and waits for their end; kills what does not end in time. */
  async stop(): Promise<void> {
    this.#phase = 'stopping';
    this.#endRestart('Weir is stopping');
    this.#started(false);
    if (this.#pause !== null) clearTimeout(this.#pause);
    await Promise.all(this.#members.all().map((member) => member.leave()));
  }

  /** Compares what there is with what is wanted, and does what is missing. Called whenever one of the two has changed. */
  #step(): void {
    if (this.#phase === 'stopping' || this.#phase === 'hopeless') return;
    const surplus = this.#members.in('serving').length - this.#wanted;
    for (let i = 0; i < surplus; i++) this.#retireOne();
    while (this.#pause === null && this.#mayFork()) this.#fork();
    if (this.#members.in('serving').length === this.#wanted && this.#members.size === this.#wanted) this.#arrive();
  }

  /** A restart forks one process more than wanted, once nobody is leaving. */
  #mayFork(): boolean {
    const staying = this.#members.in('starting', 'serving').length;
    const extra = this.#restart !== null && this.#restart.stale.size > 0 ? 1 : 0;
    return staying === 0 || (staying < this.#wanted + extra && this.#members.size <= this.#wanted);
  }

  /** There is what is wanted, and nobody starts or leaves. */
  #arrive(): void {
    this.#started(true);
    if (this.#restart?.stale.size === 0) this.#endRestart(null);
  }

  #fork(): void {
    const { environment, log, destination, onSample, askDoctor } = this.#options;
    const plan = this.#restart?.plan ?? this.#plan;
    const member = new Member(plan, {
      log,
      destination,
      onSample,
      askDoctor,
      environment,
      onReady: () => this.#onReady(member),
      onEnded: () => this.#onEnded(member),
    });
    this.#members.add(member);
  }

  #onReady(member: Member): void {
    if (this.#phase === 'leaving') member.send({ kind: 'leaving' });
    setTimeout(() => {
      if (member.state === 'serving') this.#quickDeaths = 0;
    }, QUICK_DEATH_MS).unref();
    if (member.plan === this.#restart?.plan) {
      this.#restart.replaced++;
      const { processes } = this.#plan;
      this.#plan = member.plan;
      // The number that signals made of it stays, unless the setting itself has changed.
      if (member.plan.processes !== processes) this.#want(member.plan.processes);
    }
    this.#step();
  }

  #onEnded(member: Member): void {
    this.#members.delete(member);
    this.#restart?.stale.delete(member);
    const byItself = member.state !== 'leaving';
    this.#options.onEnded(member.pid ?? 0, member.lastSnapshot, byItself);
    if (byItself) this.#onDeath(member);
    this.#step();
  }

  #onDeath(member: Member): void {
    const { reason, livedMs } = member;
    this.#options.log('process_died', { process: member.pid, reason, lived_ms: Math.round(livedMs) });
    const isQuick = member.state === 'starting' || livedMs < QUICK_DEATH_MS;
    if (isQuick) this.#quickDeaths++;
    if (member.plan === this.#restart?.plan) this.#endRestart(describe(member));
    // While a process serves that has shown that it can, the others are tried again without end.
    const serving = this.#members.in('serving');
    const isProven = serving.some((other) => other.livedMs >= QUICK_DEATH_MS);
    if (serving.length === 0 && member.refused) this.#giveUp(String(reason));
    else if (!isProven && this.#quickDeaths >= QUICK_DEATHS_MAX)
      this.#giveUp(
        `${QUICK_DEATHS_MAX} processes in a row died within ${QUICK_DEATH_MS / 1000} s of their start (last: ${reason})`,
      );
    else if (isQuick) this.#pauseForks(backoffMs(this.#quickDeaths - 1, REPLACE, Math.random()));
  }

  #pauseForks(ms: number): void {
    if (this.#pause !== null) clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = null;
      this.#step();
    }, ms);
  }

  /** A process that a restart has to replace, else the newest. */
  #retireOne(): void {
    const serving = this.#members.in('serving');
    const member = serving.find((candidate) => this.#restart?.stale.has(candidate)) ?? serving.at(-1)!;
    this.#restart?.stale.delete(member);
    void member.leave();
  }

  #want(processes: number): void {
    this.#wanted = processes;
    this.#options.log('processes_changed', { processes });
  }

  /** @param reason why it failed; null when it has succeeded. */
  #endRestart(reason: string | null): void {
    const restart = this.#restart;
    if (restart === null) return;
    this.#restart = null;
    const { replaced, stale, settle } = restart;
    settle(reason === null ? { ok: true, replaced } : { ok: false, reason, replaced, kept: stale.size });
  }

  #giveUp(reason: string): void {
    if (this.#phase === 'stopping' || this.#phase === 'hopeless') return;
    this.#phase = 'hopeless';
    this.#options.log('crash_loop', { reason });
    this.#started(false);
    this.#options.onHopeless(reason);
  }
}

/** What went wrong with a new process, for people. */
function describe({ pid, reason }: Member): string {
  if (typeof reason === 'number') return `the new process ${pid} ended with exit code ${reason}`;
  return /^SIG[A-Z0-9]+$/.test(reason) ? `the new process ${pid} was ended by ${reason}` : reason;
}
