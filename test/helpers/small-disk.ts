/** A small file system of its own in memory, which a test can fill. Needs root. */
import { spawnSync } from 'node:child_process';

/** False: tests with a small disk are skipped. */
export const canMount = process.getuid?.() === 0 && spawnSync('unshare', ['--mount', 'true']).status === 0;

/** A suffix for the titles of such tests. */
export const skippedNote = canMount ? '' : ' (skipped: needs root and the right to mount)';

/** Mounts it at this folder; `size` as in `400m`. Returns how to unmount it. Throws when it cannot. */
export function mountSmallDisk(folder: string, size: string, mode: number): () => void {
  const options = `size=${size},mode=${mode.toString(8)}`;
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`mount: ${stderr}`);
  return () => void spawnSync('umount', ['--lazy', folder]);
}
