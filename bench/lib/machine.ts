/** The machine and commit of a measurement, needed to compare two runs. */
import { execFileSync } from 'node:child_process';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { projectRoot } from './paths.ts';

export interface Machine {
  cpu: string;
  cores: number;
  memory: string;
  node: string;
  kernel: string;
  /** Short commit id, followed by `+` when the working tree differs; null outside a repository. */
  commit: string | null;
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    node: process.version,
    kernel: release(),
    commit: commit(),
  };
}

/** Load average of the last minute. A value above 0.5 before a run means that other programs compete for the cores. */
export function loadOfLastMinute(): number {
  return loadavg()[0]!;
}

function commit(): string | null {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { cwd: projectRoot, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
    const changed = git('status', '--porcelain', '--', 'server', 'workers', 'bench', ':!bench/results') !== '';
    return git('rev-parse', '--short', 'HEAD') + (changed ? '+' : '');
  } catch {
    return null;
  }
}
