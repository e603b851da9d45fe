/**
 * DATA_DIR/run, in which each serving process listens on a Unix socket for commands. Its mode is the guard: only the user of the processes
 * and root can enter it. DATA_DIR/weir.sock links to the socket of a process that serves.
 */
import {
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandSocket, processSocket } from '../../base/files/data-dir.ts';
import type { Log } from '../../base/telemetry/log.ts';

/** Longest path of a Unix socket on Linux, in bytes (sun_path without its terminating zero). */
const PATH_BYTES_MAX = 107;
/** Largest process id on Linux. */
const PID_MAX = 4_194_304;

/** A user by numbers; null: that of this program. */
type Owner = { uid: number; gid: number } | null;

export class RunFolder {
  /** For the processes; undefined: it could not be created, and Weir serves without commands. */
  readonly path: string | undefined;
  readonly #dataDir: string;
  readonly #log: Log;

  /** Removes what an earlier Weir left. Call it while this primary has the lock on DATA_DIR. @param owner user of the processes */
  constructor(dataDir: string, owner: Owner, log: Log) {
    this.#dataDir = dataDir;
    this.#log = log;
    this.path = this.#tried(() => {
      rmSync(commandSocket(dataDir), { force: true });
      return openFolder(dataDir, owner);
    });
  }

  /** Links weir.sock to the newest process that listens. Call it after each change of those that serve. @param pids oldest first */
  point(pids: readonly number[]): void {
    const { path } = this;
    if (path === undefined) return;
    const target = pids.map((pid) => processSocket(path, pid)).findLast((socket) => existsSync(socket));
    if (target === undefined) return;
    const link = commandSocket(this.#dataDir);
    this.#tried(() => {
      rmSync(`${link}.new`, { force: true });
      symlinkSync(target, `${link}.new`);
      renameSync(`${link}.new`, link);
    });
  }

  /** Removes the socket of a process that has ended, also by kill -9. */
  ended(pid: number): void {
    if (this.path !== undefined) rmSync(processSocket(this.path, pid), { force: true });
  }

  close(): void {
    rmSync(commandSocket(this.#dataDir), { force: true });
    if (this.path !== undefined) rmSync(this.path, { recursive: true, force: true });
    rmSync(recordOf(this.#dataDir), { recursive: true, force: true });
  }

  /** A full disk must not end the service. */
  #tried<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#log('commands_unavailable', { reason: (error as Error).message });
      return undefined;
    }
  }
}

/** The folder, or a link that records a folder with a shorter path. */
function recordOf(dataDir: string): string {
  return join(dataDir, 'run');
}

function openFolder(dataDir: string, owner: Owner): string {
  const record = recordOf(dataDir);
  const known = usable(record, owner);
  if (known !== null) {
    for (const name of readdirSync(known)) if (/^\d+\.sock$/.test(name)) rmSync(join(known, name), { force: true });
    return known;
  }
  rmSync(record, { recursive: true, force: true });
  const fits = Buffer.byteLength(processSocket(record, PID_MAX)) <= PATH_BYTES_MAX;
  const folder = fits ? record : mkdtempSync(join(tmpdir(), 'weir-'));
  if (fits) mkdirSync(folder, { mode: 0o700 });
  // Follows no link that another user may have put in its place.
  if (owner !== null) lchownSync(folder, owner.uid, owner.gid);
  if (!fits) symlinkSync(folder, record);
  return folder;
}

/** The recorded folder, if only this user can enter it: any user can create a folder of that name in the directory for temporary files. */
function usable(record: string, owner: Owner): string | null {
  try {
    const folder = realpathSync(record);
    const { uid, mode } = lstatSync(folder);
    const isPrivate = uid === (owner?.uid ?? process.getuid!()) && (mode & 0o777) === 0o700;
    const fits = Buffer.byteLength(processSocket(folder, PID_MAX)) <= PATH_BYTES_MAX;
    return isPrivate && fits ? folder : null;
  } catch {
    return null;
  }
}
