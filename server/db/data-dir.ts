/** DATA_DIR and its permissions. */
import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Permission bits of a new DATA_DIR: owner only. Under root the embedded Postgres runs as another user, which must reach
 * DATA_DIR/postgres: `--x` permits that without permitting others to list, read or lock the directory.
 */
export function dataDirMode(): number {
  return process.getuid?.() === 0 ? 0o711 : 0o700;
}

/** Creates DATA_DIR if missing. Leaves an existing one unchanged (`weir doctor` reports wide permissions). Throws errors of fs. */
export function makeDataDir(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  try {
    mkdirSync(path, { mode: 0o700 });
    // chmod is not subject to the umask.
    chmodSync(path, dataDirMode());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(path).isDirectory()) throw error;
  }
}
