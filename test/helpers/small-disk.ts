/** A small file system of its own in memory, which a test can fill. Needs root. */
import { spawnSync } from 'node:child_process';

/** False: tests with a small disk are skipped. */
export const canMount = process.getuid?.() === 0 && spawnSync('unshare', ['--mount', 'true']).status === 0;

/** A suffix for the titles of such tests. */
export const skippedNote = canMount ? '' : ' (skipped: needs root and the right to mount)';

/** Mounts it at this folder; `size` as in `400m`. Returns how to unmount it. Throws when it cannot. */
export function mountSmallDisk(folder: string, size: string, mode: number): () => void {
  mount('-t', 'tmpfs', '-o', `size=${size},mode=${mode.toString(8)}`, 'tmpfs', folder);
  return () => void spawnSync('umount', ['--lazy', folder]);
}

/** Changes the size of a mounted one, to no less than it holds. */
export function resizeDisk(folder: string, size: string): void {
  mount('-o', `remount,size=${size}`, folder);
}

function mount(...args: string[]): void {
  const { status, stderr } = spawnSync('mount', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`mount: ${stderr}`);
}
