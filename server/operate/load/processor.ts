/** Processor time by part, from /proc (Linux). */
import { readdirSync, readFileSync } from 'node:fs';
import { VERIFY_THREAD } from '../../model/signatures/check.ts';

/** User and system time by part, in microseconds. */
export interface ProcessorTime {
  /** Main threads of the serving processes. */
  eventLoop: number;
  /** Threads that verify signatures. */
  signatures: number;
  /** All other threads of the serving processes: garbage collector, compiler, file system. */
  other: number;
  postgres: number;
}

/** Time since its start of each thread of Weir and each process of Postgres, in microseconds. */
type ProcessorReading = ReadonlyMap<string, { part: Part; us: number }>;

export type Part = keyof ProcessorTime;
export const parts: readonly Part[] = ['eventLoop', 'signatures', 'other', 'postgres'];

/** Reads the processor time of these processes. One that has ended is left out. */
export function readProcessor(weirPids: readonly number[], postgresPids: readonly number[]): ProcessorReading {
  const reading = new Map<string, { part: Part; us: number }>();
  const add = (part: Part, folder: string) => {
    const us = microseconds(folder);
    if (us !== null) reading.set(folder, { part, us });
  };
  for (const pid of weirPids)
    for (const thread of threadsOf(pid)) {
      const folder = `/proc/${pid}/task/${thread}`;
      add(thread === pid ? 'eventLoop' : isVerifyThread(folder) ? 'signatures' : 'other', folder);
    }
  for (const pid of postgresPids) add('postgres', `/proc/${pid}`);
  return reading;
}

/** The time of each part between two readings. A thread or process that ended in between (an autovacuum worker) is left out. */
export function timeBetween(before: ProcessorReading, after: ProcessorReading): ProcessorTime {
  const time: ProcessorTime = { eventLoop: 0, signatures: 0, other: 0, postgres: 0 };
  for (const [folder, { part, us }] of after) time[part] += us - (before.get(folder)?.us ?? 0);
  return time;
}

function isVerifyThread(folder: string): boolean {
  return textOf(`${folder}/comm`)?.trim() === VERIFY_THREAD;
}

function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

/** schedstat has nanoseconds; /proc/PID/stat has hundredths of a second. Null when it has ended. */
function microseconds(folder: string): number | null {
  const text = textOf(`${folder}/schedstat`);
  return text === null ? null : Number(text.split(' ')[0]) / 1000;
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
