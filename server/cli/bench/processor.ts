/** Processor time by process, as the kernel counts it. */
import { readFileSync } from 'node:fs';

/** Clock ticks per second in /proc, the same on every Linux (USER_HZ). */
const TICKS_A_SECOND = 100;

/** Processor time of these processes since they started, in seconds; a process that has exited counts 0. */
export function processorSeconds(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + ticksOf(pid), 0) / TICKS_A_SECOND;
}

/** Processor time of this process with all its threads, in seconds. */
export function ownProcessorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function ticksOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The process name, in parentheses, may contain spaces. The state is the third field; utime and stime are the 14th and 15th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return 0;
  }
}
