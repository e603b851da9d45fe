/** The machine and commit of a measurement, needed to compare two runs. */
import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
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
