/** Processor time, as the kernel counts it: who had the cores. */
import { readFileSync } from 'node:fs';

/** Of the times in /proc, on every Linux (USER_HZ). */
const TICKS_A_SECOND = 100;

/** What these processes took since they started, in seconds; one that is gone counts nothing. */
export function processorSeconds(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + ticksOf(pid), 0) / TICKS_A_SECOND;
}

/** What this process took itself, its threads included, in seconds. */
export function ownProcessorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function ticksOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // Its name, in brackets, may hold spaces. The state is the third field, utime and stime are the 14th and the 15th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return 0;
  }
}
