/** Describes the holder of a lock of lock.ts, for messages to users. */
import { readFile, stat } from 'node:fs/promises';

/** Describes the holder, such as `process 4242 (user 1000)`, or reports it as hidden if the kernel does not show it (another container). */
export async function describeHolder(path: string): Promise<string> {
  const hidden = 'a process that cannot be seen from here';
  try {
    const pid = await holderOf(path);
    return pid === null ? hidden : `process ${pid} (user ${(await stat(`/proc/${pid}`)).uid})`;
  } catch {
    return hidden;
  }
}

/** The process that took the lock; null if there is none or it is hidden. */
async function holderOf(path: string): Promise<number | null> {
  const { dev, ino } = await stat(path, { bigint: true });
  const file = `${major(dev)}:${minor(dev)}:${ino}`;
  // `3: FLOCK  ADVISORY  WRITE 4242 08:01:1311 0 EOF`; waiting processes have an arrow after the number.
  for (const line of (await readFile('/proc/locks', 'utf8')).split('\n')) {
    const [, kind, , , pid, where] = line.split(/ +/);
    if (kind === 'FLOCK' && where === file && Number(pid) > 0) return behindHelper(Number(pid));
  }
  return null;
}

/** Weir locks through a helper that runs `cat`: returns the helper's parent, which is the process that the user looks for. */
async function behindHelper(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const nameEnd = text.lastIndexOf(')');
  const name = text.slice(text.indexOf('(') + 1, nameEnd);
  const parent = Number(text.slice(nameEnd + 2).split(' ')[1]);
  return name === 'cat' && parent > 1 ? parent : pid;
}

/** The two parts of a device number in the format of /proc/locks (glibc's gnu_dev_major and gnu_dev_minor), in hex. */
function major(dev: bigint): string {
  return (((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)).toString(16).padStart(2, '0');
}

function minor(dev: bigint): string {
  return ((dev & 0xffn) | ((dev >> 12n) & ~0xffn)).toString(16).padStart(2, '0');
}
