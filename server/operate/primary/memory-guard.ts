/**
 * Replaces a process that uses more memory than PROCESS_MEMORY_MAX, as a rolling restart does: the new process listens before the old one
 * leaves. One process at a time, and each slot at most once in EVERY_SLOT_MS, so that a limit below what a process needs causes no loop.
 */
import { readFile } from 'node:fs/promises';
import type { Log } from '../../base/telemetry/log.ts';
import type { Member } from './member.ts';
import type { Replacement } from './replacement.ts';

const CHECK_EVERY_MS = 5_000;
const EVERY_SLOT_MS = 60_000;

/** What the guard needs of a process. */
type Watched = Pick<Member, 'pid'>;

interface GuardParts<Process extends Watched> {
  /** PROCESS_MEMORY_MAX now, in bytes; undefined: no limit. */
  limit: () => number | undefined;
  /** Serving processes; none while another process is starting or leaving. */
  replaceable: () => Process[];
  /** Starts a process for this one; see Supervisor.replace. */
  replace: (process: Process) => Promise<Replacement<Process>>;
  log: Log;
  /** Called for each process that was replaced. */
  onReplaced: () => void;
  /** Resident bytes of a process; 0 for one that has ended. */
  measure?: (pid: number) => Promise<number>;
  /** Monotonic, in milliseconds. */
  nowMs?: () => number;
}

export class MemoryGuard<Process extends Watched> {
  readonly #parts: Required<GuardParts<Process>>;
  /** When a process was started for its slot's memory, or was last to be replaced. */
  readonly #attemptedMs = new WeakMap<Process, number>();
  #checking: Promise<void> | null = null;

  constructor(parts: GuardParts<Process>) {
    this.#parts = { measure: residentBytes, nowMs: () => performance.now(), ...parts };
  }

  /** Checks every CHECK_EVERY_MS until the returned function is called. */
  start(): () => void {
    const timer = setInterval(() => void this.check(), CHECK_EVERY_MS);
    return () => clearInterval(timer);
  }

  /** Replaces the largest process over the limit, if one may be replaced now. Resolves when that is done; one check at a time. */
  check(): Promise<void> {
    this.#checking ??= this.#replaceLargest().finally(() => {
      this.#checking = null;
    });
    return this.#checking;
  }

  async #replaceLargest(): Promise<void> {
    const { limit, replaceable, replace, log, measure, nowMs, onReplaced } = this.#parts;
    const limitBytes = limit();
    if (limitBytes === undefined) return;
    const mayReplace = (process: Process) =>
      nowMs() - (this.#attemptedMs.get(process) ?? Number.NEGATIVE_INFINITY) >= EVERY_SLOT_MS;
    const measured = replaceable()
      .filter(mayReplace)
      .map(async (process) => ({ process, bytes: await measure(process.pid!) }));
    const [largest] = (await Promise.all(measured)).sort((a, b) => b.bytes - a.bytes);
    if (largest === undefined || largest.bytes <= limitBytes) return;
    const { process, bytes } = largest;
    // A signal may have come while the kernel was asked.
    if (!replaceable().includes(process)) return;
    this.#attemptedMs.set(process, nowMs());
    const outcome = await replace(process);
    const fields = { process: process.pid, bytes, limit_bytes: limitBytes };
    if (!outcome.ok) return log('memory_replace_failed', { ...fields, reason: outcome.reason });
    this.#attemptedMs.set(outcome.successor, nowMs());
    log('memory_replaced', { ...fields, by: outcome.successor.pid });
    onReplaced();
  }
}

/** From the kernel, so that a process that hangs is measured as well. Threads are part of their process. */
async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}
