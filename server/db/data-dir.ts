/** DATA_DIR and who may enter it. */
import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Permission bits of a new DATA_DIR: its owner alone. Under root the embedded Postgres runs as another user, who must walk through to
 * DATA_DIR/postgres: `--x` lets it in without letting anyone list, read or lock the directory.
 */
export function dataDirMode(): number {
  return process.getuid?.() === 0 ? 0o711 : 0o700;
}

/** Makes DATA_DIR when it is missing; an existing one is left as it is (`weir doctor` reports a wide one). Throws what fs throws. */
export function makeDataDir(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  try {
    mkdirSync(path, { mode: 0o700 });
    // The umask does not narrow this.
    chmodSync(path, dataDirMode());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(path).isDirectory()) throw error;
  }
}
