/** Installs the packages of bench/peers, on demand and only for `npm run bench -- peers`. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './paths.ts';

const FILES = ['package.json', 'package-lock.json'];

interface Lock {
  packages: Record<string, { version: string }>;
}

interface PeerPackages {
  /** Version of a package. */
  version(name: string): string;
  /** Why they are not installed; null: they are. */
  reason: string | null;
}

/** Installs them beside the built contestants, unless that was done from the same lock file. */
export function installPeers(say: (line: string) => void): PeerPackages {
  const source = join(projectRoot, 'bench/peers');
  // The chunks that the built contestants share are in dist/bench too.
  const folder = join(projectRoot, 'dist/bench');
  const lock = readFileSync(join(source, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lock) as Lock;
  const version = (name: string) => packages[`node_modules/${name}`]!.version;
  const copied = join(folder, 'node_modules/.lock-of-peers.json');
  if (existsSync(copied) && readFileSync(copied, 'utf8') === lock) return { version, reason: null };
  say('installing the packages of bench/peers');
  for (const file of FILES) copyFileSync(join(source, file), join(folder, file));
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
  const { error, status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' });
  const failure = error?.message ?? stderr.trim().split('\n')[0];
  if (status === 0) copyFileSync(join(source, 'package-lock.json'), copied);
  return { version, reason: status === 0 ? null : `npm ci in bench/peers failed: ${failure}` };
}
