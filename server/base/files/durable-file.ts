/** Files that survive a power cut. A new name in a directory is only safe when the directory itself was flushed. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a file, replaces one at the same path, and opens the new one for writing. A symbolic link is removed, not followed. Throws errors of fs.
 */
export function createInPlace(path: string, mode: number): number {
  rmSync(path, { force: true });
  return openSync(path, 'wx', mode);
}

/**
 * Replaces a file, by default for its owner only. After a power cut it has the old or the new content, and the new one once this function
 * has returned. Throws errors of fs; a file `PATH.draft` may then remain, which the next call overwrites.
 */
export function replaceFile(path: string, content: string | Uint8Array, mode = 0o600): void {
  const draft = `${path}.draft`;
  const file = createInPlace(draft, mode);
  try {
    writeFileSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(draft, path);
  flushDirectory(dirname(path));
}

/** Flushes the names in a directory. Throws errors of fs. */
export function flushDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** Flushes a file, or the names in a directory, without blocking. Rejects with errors of fs. */
export async function flushPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  await file.sync().finally(() => file.close());
}
