/** Processor time by part, from /proc (Linux). */
import { readdirSync, readFileSync } from 'node:fs';
import { VERIFY_THREAD } from '../../signatures/check.ts';

/** User and system time since the processes started, in microseconds. */
export interface ProcessorTime {
  /** Main threads of the serving processes. */
  eventLoop: number;
  /** Threads that verify signatures. */
  signatures: number;
  /** All other threads of the serving processes: garbage collector, compiler, file system. */
  other: number;
  postgres: number;
}

export type Part = keyof ProcessorTime;
export const parts: readonly Part[] = ['eventLoop', 'signatures', 'other', 'postgres'];

/** Processor time up to now. A thread or process that has exited counts 0. */
export function processorTime(weirPids: readonly number[], postgresPids: readonly number[]): ProcessorTime {
  const time: ProcessorTime = { eventLoop: 0, signatures: 0, other: 0, postgres: 0 };
  for (const pid of weirPids)
    for (const thread of threadsOf(pid)) {
      const folder = `/proc/${pid}/task/${thread}`;
      const part =
        thread === pid ? 'eventLoop' : textOf(`${folder}/comm`).trim() === VERIFY_THREAD ? 'signatures' : 'other';
      time[part] += microseconds(folder);
    }
  for (const pid of postgresPids) time.postgres += microseconds(`/proc/${pid}`);
  return time;
}

/** The time of each part between two readings. */
export function timeBetween(before: ProcessorTime, after: ProcessorTime): ProcessorTime {
  const time = { ...after };
  for (const part of parts) time[part] -= before[part];
  return time;
}

function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

/** schedstat has nanoseconds; /proc/PID/stat has hundredths of a second. */
function microseconds(folder: string): number {
  return Number(textOf(`${folder}/schedstat`).split(' ')[0]) / 1000;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
