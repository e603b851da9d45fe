/**
 * Processor time of the main thread alone: the cost on the event loop, without the other threads.
 *
 * Node 20 has no process.threadCpuUsage (added in 23.9), and process.cpuUsage sums all threads. Event loop utilisation is
 * wall time, so it counts a thread that was preempted as working. Linux has the figure in nanoseconds in
 * /proc/PID/task/TID/schedstat (first number), where the id of the main thread is the process id.
 * @see https://docs.kernel.org/scheduler/sched-stats.html
 */
import { readFileSync } from 'node:fs';
import { CommandError } from '../../server/base/command/io.ts';

const path = `/proc/${process.pid}/task/${process.pid}/schedstat`;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const SLEEP_MS = 0.05;

/** Processor time of the main thread in milliseconds. Call it on the main thread. Throws CommandError on systems other than Linux. */
export function mainThreadMs(): number {
  // The kernel updates the figure when the thread leaves its core, otherwise only at each timer tick.
  Atomics.wait(sleeper, 0, 0, SLEEP_MS);
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0]) / 1e6;
  } catch (error) {
    throw new CommandError(`the main thread's processor time is in ${path} on Linux only: ${(error as Error).message}`);
  }
}
