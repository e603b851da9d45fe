/**
 * Keeps the wanted number of processes serving. Signals and process ends change only the wanted or the actual state. `#step` compares the
 * two and forks or retires, so overlapping requests reach the wanted number. At most one process more than wanted exists, including
 * processes that are leaving: connectionsNeeded budgets database connections for that many.
 *
 *     starting ──listens──▶ serving ──leave()──▶ leaving ──▶ ended
 *         └── ends, refuses, or is not ready in time: replaced after a pause; in a rolling restart, the restart ends
 */
import {
  Child,
  type ChildParts,
  failureOf,
  type ProcessPlan,
  type Replacement,
  type Restart,
  type RestartOutcome,
} from './child.ts';
import type { Children } from './children.ts';
import { QuickDeaths } from './deaths.ts';

interface SupervisorOptions extends ChildParts {
  /** The supervisor adds and removes children. */
  children: Children;
  plan: ProcessPlan;
  /** Called after a change of the processes that serve. */
  onServing: () => void;
  /** Called when a process ended, unexpectedly (`byItself`) or on request. */
  onEnded: (child: Child, byItself: boolean) => void;
  /** Called when the wanted number of processes serves, after each change. */
  onComplete: () => void;
  /** Called when the supervisor gives up. */
  onHopeless: (reason: string) => void;
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #children: Children;
  /** The last plan that a process served with. Replacements for processes that end unexpectedly use it. */
  #plan: ProcessPlan;
  #wanted: number;
  #restart: Restart | null = null;
  #phase: 'running' | 'leaving' | 'stopping' | 'hopeless' = 'running';
  readonly #quickDeaths = new QuickDeaths();
  /** No process is forked during a pause. */
  #pause: NodeJS.Timeout | null = null;
  #started: (ok: boolean) => void = () => {};

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#children = options.children;
    this.#plan = options.plan;
    this.#wanted = options.plan.settings.WORKERS;
  }

  get wanted(): number {
    return this.#wanted;
  }

  /** Forks all processes. Resolves with true when the wanted number serves, with false when the supervisor gave up or was stopped. */
  start(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#started = resolve;
      this.#step();
    });
  }

  /** Sets the number of processes; the minimum is one. */
  setWanted(wanted: number): void {
    if (this.#phase !== 'running' || !(wanted >= 1) || wanted === this.#wanted) return;
    this.#want(wanted);
    this.#step();
  }

  /**
   * Replaces every process with one of `plan`: each new process listens before an old one leaves. A new process that fails ends the
   * restart, and the remaining old processes keep serving. One restart at a time; it ends a replacement of one process.
   */
  restart(plan: ProcessPlan): Promise<RestartOutcome> {
    this.#endRestart('a rolling restart replaces every process');
    return new Promise((done) => {
      this.#restart = { plan, stale: new Set(this.#children.in('serving')), replaced: 0, done };
      // Starting processes have accepted no request yet, and may hang.
      for (const child of this.#children.in('starting')) void child.leave();
      if (this.#phase === 'running') this.#step();
      else this.#endRestart('Weir is stopping');
    });
  }

  /** Whether the wanted number of processes serves, and none is starting, leaving or to be replaced. */
  get isQuiet(): boolean {
    const serving = this.#children.in('serving').length;
    return (
      this.#phase === 'running' && this.#restart === null && serving === this.#wanted && this.#children.size === serving
    );
  }

  /** Replaces one serving process like a rolling restart, with the current settings. Call while `isQuiet`. */
  replace(child: Child): Promise<Replacement> {
    return new Promise((resolve) => {
      const restart: Restart = {
        // Each plan object is a generation of processes.
        plan: { ...this.#plan },
        stale: new Set([child]),
        replaced: 0,
        done: (outcome) => {
          const { successor } = restart;
          if (!outcome.ok) resolve(outcome);
          else if (successor) resolve({ ok: true, successor });
          else resolve({ ok: false, reason: 'the number of processes was reduced' });
        },
      };
      this.#restart = restart;
      this.#step();
    });
  }

  /** Makes readyz fail. All other requests are served, and processes that end unexpectedly are replaced. */
  leave(): void {
    if (this.#phase === 'running') this.#phase = 'leaving';
    this.#endRestart('Weir is stopping');
    this.#children.broadcast({ kind: 'leaving' });
  }

  /** Drains all processes and waits for their end; kills those that do not end in time. */
  async stop(): Promise<void> {
    this.#phase = 'stopping';
    this.#endRestart('Weir is stopping');
    this.#started(false);
    if (this.#pause !== null) clearTimeout(this.#pause);
    await Promise.all(this.#children.all().map((child) => child.leave()));
  }

  /** Compares the actual with the wanted state and acts on the difference. Called after every change of either. */
  #step(): void {
    if (this.#phase === 'stopping' || this.#phase === 'hopeless') return;
    const surplus = this.#children.in('serving').length - this.#wanted;
    for (let i = 0; i < surplus; i++) this.#retireOne();
    while (this.#pause === null && this.#mayFork()) this.#fork();
    if (this.#children.in('serving').length === this.#wanted && this.#children.size === this.#wanted) this.#arrive();
  }

  /** A restart forks one process more than wanted when no process is leaving. */
  #mayFork(): boolean {
    const staying = this.#children.in('starting', 'serving').length;
    const extra = this.#restart !== null && this.#restart.stale.size > 0 ? 1 : 0;
    return staying === 0 || (staying < this.#wanted + extra && this.#children.size <= this.#wanted);
  }

  /** The wanted state is reached: no process is starting or leaving. */
  #arrive(): void {
    this.#started(true);
    this.#options.onComplete();
    if (this.#restart?.stale.size === 0) this.#endRestart(null);
  }

  #fork(): void {
    const child: Child = new Child(this.#restart?.plan ?? this.#plan, this.#options, {
      ready: () => this.#onReady(child),
      ended: () => this.#onEnded(child),
    });
    this.#children.add(child);
  }

  #onReady(child: Child): void {
    if (this.#phase === 'leaving') child.send({ kind: 'leaving' });
    this.#options.onServing();
    this.#quickDeaths.onReady(child);
    if (child.plan === this.#restart?.plan) {
      this.#restart.replaced++;
      this.#restart.successor = child;
      const { WORKERS: before } = this.#plan.settings;
      const { WORKERS: processes } = child.plan.settings;
      this.#plan = child.plan;
      // A count changed by signals is kept unless the setting itself has changed.
      if (processes !== before) this.#want(processes);
    }
    this.#step();
  }

  #onEnded(child: Child): void {
    this.#children.delete(child);
    this.#restart?.stale.delete(child);
    const byItself = child.state !== 'leaving';
    this.#options.onEnded(child, byItself);
    this.#options.onServing();
    if (byItself) this.#onDeath(child);
    this.#step();
  }

  #onDeath(child: Child): void {
    const { reason, livedMs } = child;
    this.#options.log('process_exited', { process: child.pid, reason, lived_ms: Math.round(livedMs) });
    const pauseMs = this.#quickDeaths.onDeath(child);
    if (child.plan === this.#restart?.plan) this.#endRestart(failureOf(child));
    const serving = this.#children.in('serving');
    const hopeless = this.#quickDeaths.hopeless(serving, reason);
    if (serving.length === 0 && child.refused) this.#giveUp(String(reason));
    else if (hopeless !== null) this.#giveUp(hopeless);
    else if (pauseMs !== null) this.#pauseForks(pauseMs);
  }

  #pauseForks(ms: number): void {
    if (this.#pause !== null) clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = null;
      this.#step();
    }, ms);
  }

  /** Retires a process that the restart must replace, otherwise the newest. */
  #retireOne(): void {
    const serving = this.#children.in('serving');
    const child = serving.find((candidate) => this.#restart?.stale.has(candidate)) ?? serving.at(-1)!;
    this.#restart?.stale.delete(child);
    void child.leave();
    this.#options.onServing();
  }

  #want(processes: number): void {
    this.#wanted = processes;
    this.#options.log('processes_changed', { processes });
  }

  /** @param reason why the restart failed; null on success. */
  #endRestart(reason: string | null): void {
    const restart = this.#restart;
    if (restart === null) return;
    this.#restart = null;
    const { replaced, stale, done } = restart;
    done(reason === null ? { ok: true, replaced } : { ok: false, reason, replaced, kept: stale.size });
  }

  #giveUp(reason: string): void {
    if (this.#phase === 'stopping' || this.#phase === 'hopeless') return;
    this.#phase = 'hopeless';
    this.#options.log('crash_loop', { reason });
    this.#started(false);
    this.#options.onHopeless(reason);
  }
}
