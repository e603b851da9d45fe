/** The file operations of the spool, as an interface: a test simulates a disk that loses what was not flushed. */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** An open file. All methods reject with errors of fs. */
export interface DiskFile {
  bytes(): Promise<number>;
  /** Reads up to `length` bytes; fewer at the end of the file. */
  read(at: number, length: number): Promise<Buffer>;
  /** Writes all bytes. After an error any part of them may be in the file. */
  write(at: number, bytes: Uint8Array): Promise<void>;
  truncate(bytes: number): Promise<void>;
  /** Resolves when the file's content survives a power cut. */
  flush(): Promise<void>;
  /** True while `path` names this file. */
  isAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}

export interface Disk {
  /** Names and sizes of the files in a folder, in no order, without symbolic links. A file that is removed in between is left out. */
  list(folder: string): Promise<{ name: string; bytes: number }[]>;
  /** Creates a file that does not exist. */
  create(path: string): Promise<DiskFile>;
  /** Opens a file for reading; rejects for a symbolic link. */
  open(path: string): Promise<DiskFile>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** Resolves when the names in the folder survive a power cut. */
  flushFolder(folder: string): Promise<void>;
}

/** Segments contain request bodies: for the owner only. */
const FILE_MODE = 0o600;
/** The folder belongs to the user of the serving processes, and root reads it: a link may name any file, and a pipe may block. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

class RealFile implements DiskFile {
  readonly #handle: FileHandle;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  async bytes(): Promise<number> {
    return (await this.#handle.stat()).size;
  }

  async read(at: number, length: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(length);
    let filled = 0;
    while (filled < length) {
      const { bytesRead } = await this.#handle.read(buffer, filled, length - filled, at + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return buffer.subarray(0, filled);
  }

  async write(at: number, bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; )
      done += (await this.#handle.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  }

  truncate(bytes: number): Promise<void> {
    return this.#handle.truncate(bytes);
  }

  flush(): Promise<void> {
    return this.#handle.datasync();
  }

  async isAt(path: string): Promise<boolean> {
    const own = await this.#handle.stat();
    const there = await statOf(path);
    return there !== null && there.ino === own.ino && there.dev === own.dev;
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

/** The file system. */
export const realDisk: Disk = {
  async list(folder) {
    const names = await readdir(folder);
    const files = await Promise.all(names.map(async (name) => ({ name, found: await statOf(join(folder, name)) })));
    return files.flatMap(({ name, found }) => (found?.isFile() ? [{ name, bytes: found.size }] : []));
  },
  create: async (path) => new RealFile(await open(path, 'wx', FILE_MODE)),
  open: async (path) => new RealFile(await open(path, READ_FLAGS)),
  rename: (from, to) => rename(from, to),
  remove: (path) => unlink(path),
  async flushFolder(folder) {
    const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    await handle.sync().finally(() => handle.close());
  },
};

/** True for an error of a disk or quota without room, which passes when files are removed. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** Null when the path does not exist. */
async function statOf(path: string): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
