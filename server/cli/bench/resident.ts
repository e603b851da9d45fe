/** Resident memory of serving processes under load, as the kernel counts it. */
import { readFileSync } from 'node:fs';

const SAMPLE_EVERY_MS = 250;

/** Processes that `pid` started and that run Node, itself left out. */
export function nodeChildren(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children
    .map(Number)
    .filter((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0')[0] === process.execPath);
}

/** Resident bytes of a process; 0 when it is gone. */
function residentBytes(pid: number): number {
  try {
    const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Number(line?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Runs `work` and watches meanwhile; `peakBytes` is the highest that any one of the processes had. */
export async function watchResident<T>(
  pids: readonly number[],
  work: () => Promise<T>,
): Promise<{ result: T; peakBytes: number }> {
  let peakBytes = 0;
  const look = () => {
    peakBytes = Math.max(peakBytes, ...pids.map(residentBytes));
  };
  const timer = setInterval(look, SAMPLE_EVERY_MS);
  try {
    return { result: await work(), peakBytes };
  } finally {
    look();
    clearInterval(timer);
  }
}
