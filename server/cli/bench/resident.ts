/** Resident memory of serving processes under load, as reported by the kernel. */
import { readFileSync } from 'node:fs';

const SAMPLE_EVERY_MS = 250;

/** Child processes of `pid` that run Node. */
export function nodeChildren(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children
    .map(Number)
    .filter((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0')[0] === process.execPath);
}

/** Resident memory of a process in bytes; 0 when the process has exited. */
function residentBytes(pid: number): number {
  try {
    const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Number(line?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Runs `work` and samples memory until it ends. `peakBytes` is the highest value of any single process. */
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
