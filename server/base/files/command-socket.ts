/** Paths of the Unix sockets on which the processes of this machine serve commands. */
import { join } from 'node:path';

/** A link to the socket of one serving process, which the primary replaces when that process ends. */
export function commandSocket(dataDir: string): string {
  return join(dataDir, 'weir.sock');
}

/** @param folder as RunFolder created it */
export function processSocket(folder: string, pid: number): string {
  return join(folder, `${pid}.sock`);
}
