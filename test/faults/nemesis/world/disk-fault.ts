/** Makes fsync slow or fail in the programs of a run, by a library that they load first. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface DiskFault {
  /** Environment of a program whose fsync the fault reaches. */
  environment: Record<string, string>;
  /** `slow MILLISECONDS` or `fail PERCENT`; the empty string heals. */
  set(text: string): Promise<void>;
}

/** Compiles the library into a folder; null: this machine has no C compiler. */
export async function compileDiskFault(folder: string): Promise<string | null> {
  const library = join(folder, 'disk-fault.so');
  const words = ['-shared', '-fPIC', '-O2', '-o', library, join(import.meta.dirname, 'disk-fault.c'), '-ldl'];
  return promisify(execFile)('cc', words).then(
    () => library,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      console.warn('The nemesis runs without faults of fsync: this machine has no C compiler (cc).');
      return null;
    },
  );
}

/** @param file that the programs of the fault can read */
export async function diskFault(library: string | null, file: string): Promise<DiskFault | null> {
  if (library === null) return null;
  const set = (text: string) => writeFile(file, text, { mode: 0o644 });
  await set('');
  return { environment: { LD_PRELOAD: library, DISK_FAULT: file }, set };
}
