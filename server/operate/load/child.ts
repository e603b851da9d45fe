/** Child processes of a bench: started and awaited until ready, stopped by process id; and the memory of serving processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { CommandError } from '../../base/command/io.ts';
import { builtFile } from '../../base/files/build.ts';
import { within } from '../../base/time/every.ts';
import { residentBytes } from '../primary/memory-guard.ts';

export interface BenchChild {
  pid: number;
  stop(): Promise<void>;
}

interface ChildOptions {
  name: string;
  /** Path of the compiled file, then its arguments. */
  args: readonly string[];
  environment: NodeJS.ProcessEnv;
  directory: string;
  /** The child is ready when its output contains this text. */
  readyText: string;
}

/** Arguments that start Weir, with a module that sends TERM to it when its standard input ends, as when the bench is killed. */
export const startArguments = [
  '--import',
  'data:text/javascript,process.stdin.on("end",()=>process.kill(process.pid,"SIGTERM")).resume().unref()',
  builtFile('server/cli/weir.js'),
  'start',
];

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 30_000;
const OUTPUT_KEPT = 4_000;

/**
 * Starts a Node program and waits until it is ready, else rejects with CommandError and the end of the output. The child has its own
 * session: Ctrl-C reaches only the bench, which then stops the child in order.
 */
export async function startChild({ name, args, environment, directory, readyText }: ChildOptions): Promise<BenchChild> {
  const child = spawn(process.execPath, args, {
    cwd: directory,
    env: environment,
    detached: true,
    // The child's standard input closes when the bench exits, even when the bench is killed. Weir and the peers exit then.
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(`it exited with ${signal ?? `exit code ${code}`}`));
  });
  let output = '';
  const ready = new Promise<null>((resolve) => {
    const read = (text: string) => {
      output = (output + text).slice(-OUTPUT_KEPT);
      if (output.includes(readyText)) resolve(null);
    };
    child.stdout.setEncoding('utf8').on('data', read);
    child.stderr.setEncoding('utf8').on('data', read);
  });
  const failure = await within(START_TIMEOUT_MS, Promise.race([ready, ended]));
  if (failure === null) return { pid: child.pid!, stop: () => stop(child, ended) };
  await stop(child, ended);
  throw new CommandError(`${name} did not start: ${failure ?? 'it took too long'}\n${output}`);
}

async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const killTimer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(killTimer);
}

const SAMPLE_EVERY_MS = 250;

/** Child processes of `pid` that run Node. */
export function nodeChildren(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children
    .map(Number)
    .filter((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0')[0] === process.execPath);
}

/** Runs `work` and samples memory until it ends. `peakBytes` is the highest value of any single process. */
export async function watchResident<T>(
  pids: readonly number[],
  work: () => Promise<T>,
): Promise<{ result: T; peakBytes: number }> {
  let peakBytes = 0;
  const sample = () => {
    peakBytes = Math.max(peakBytes, ...pids.map(residentBytes));
  };
  const timer = setInterval(sample, SAMPLE_EVERY_MS);
  try {
    const result = await work();
    sample();
    return { result, peakBytes };
  } finally {
    clearInterval(timer);
  }
}
