/**
 * Replaces processes that use more memory than PROCESS_MEMORY_MAX, as a rolling restart does: one at a time, and each slot at most once in
 * EVERY_SLOT_MS, so that a limit below what a process needs causes no loop.
 */
import { readFileSync } from 'node:fs';
import type { Log } from '../../base/telemetry/log.ts';
import type { Child, Replacement } from './child.ts';

export const CHECK_MEMORY_EVERY_MS = 5_000;
const EVERY_SLOT_MS = 60_000;

interface GuardParts<Process> {
  /** PROCESS_MEMORY_MAX now, in bytes; undefined: no limit. */
  limit: () => number | undefined;
  /** Serving processes; none while another process is starting or leaving. */
  replaceable: () => Process[];
  /** Starts a process for this one; see Supervisor.replace. */
  replace: (process: Process) => Promise<Replacement<Process>>;
  log: Log;
  onReplaced: () => void;
  /** Resident bytes of a process; 0 for one that has ended. */
  measure?: (pid: number) => number;
  /** Monotonic, in milliseconds. */
  nowMs?: () => number;
}

/** The returned function replaces the largest process over the limit, if one may be replaced now. Call it again when that is done. */
export function memoryGuard<Process extends Pick<Child, 'pid'>>({
  limit,
  replaceable,
  replace,
  log,
  onReplaced,
  measure = residentBytes,
  nowMs = () => performance.now(),
}: GuardParts<Process>): () => Promise<void> {
  /** When a process was last chosen to be replaced, or was started as the replacement. */
  const attemptedMs = new WeakMap<Process, number>();
  return async () => {
    const limitBytes = limit();
    if (limitBytes === undefined) return;
    const [largest] = replaceable()
      .filter((process) => nowMs() - (attemptedMs.get(process) ?? Number.NEGATIVE_INFINITY) >= EVERY_SLOT_MS)
      .map((process) => ({ process, bytes: measure(process.pid!) }))
      .sort((a, b) => b.bytes - a.bytes);
    if (largest === undefined || largest.bytes <= limitBytes) return;
    const { process, bytes } = largest;
    attemptedMs.set(process, nowMs());
    const outcome = await replace(process);
    const fields = { process: process.pid, bytes, limit_bytes: limitBytes };
    if (!outcome.ok) return log('memory_replace_failed', { ...fields, reason: outcome.reason });
    attemptedMs.set(outcome.successor, nowMs());
    log('memory_replaced', { ...fields, by: outcome.successor.pid });
    onReplaced();
  };
}

/** Resident memory of a process in bytes, as the kernel reports it, also for one that hangs; 0 for one that has ended. */
export function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
