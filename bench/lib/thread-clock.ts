/**
 * Processor time of the main thread alone: what the event loop pays, whatever other threads do meanwhile.
 *
 * Node 20 has no process.threadCpuUsage (23.9 has), and process.cpuUsage sums all threads. The event loop's utilisation is wall
 * time, so that a thread which was pushed off its core would count as working. Linux keeps the figure in nanoseconds in
 * /proc/PID/task/TID/schedstat (first number), where the main thread's id is the process's.
 * @see https://docs.kernel.org/scheduler/sched-stats.html
 */
import { readFileSync } from 'node:fs';
import { CommandError } from '../../server/cli/io.ts';

const path = `/proc/${process.pid}/task/${process.pid}/schedstat`;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const SLEEP_MS = 0.05;

/** Milliseconds of processor time that the main thread has had; call it on that thread. Throws CommandError off Linux. */
export function mainThreadMs(): number {
  // The kernel brings the figure up to date when the thread leaves its core, else only at each timer tick.
  Atomics.wait(sleeper, 0, 0, SLEEP_MS);
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0]) / 1e6;
  } catch (error) {
    throw new CommandError(`the main thread's processor time is in ${path} on Linux only: ${(error as Error).message}`);
  }
}
