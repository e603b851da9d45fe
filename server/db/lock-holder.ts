/** Who holds a lock of lock.ts, for messages to people. */
import { readFile, stat } from 'node:fs/promises';

/** Such as `process 4242 (user 1000)`; what the kernel does not show, another container's process for example, is said to be hidden. */
export async function describeHolder(path: string): Promise<string> {
  const hidden = 'a process that cannot be seen from here';
  try {
    const pid = await holderOf(path);
    return pid === null ? hidden : `process ${pid} (user ${(await stat(`/proc/${pid}`)).uid})`;
  } catch {
    return hidden;
  }
}

/** The process that took the lock; null when there is none, or none that can be seen. */
async function holderOf(path: string): Promise<number | null> {
  const { dev, ino } = await stat(path, { bigint: true });
  const file = `${major(dev)}:${minor(dev)}:${ino}`;
  // `3: FLOCK  ADVISORY  WRITE 4242 08:01:1311 0 EOF`; those that wait have an arrow after the number.
  for (const line of (await readFile('/proc/locks', 'utf8')).split('\n')) {
    const [, kind, , , pid, where] = line.split(/ +/);
    if (kind === 'FLOCK' && where === file && Number(pid) > 0) return behindHelper(Number(pid));
  }
  return null;
}

/** A Weir locks by a helper, which is `cat` by then: its parent is the process that a person looks for. */
async function behindHelper(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const nameEnd = text.lastIndexOf(')');
  const name = text.slice(text.indexOf('(') + 1, nameEnd);
  const parent = Number(text.slice(nameEnd + 2).split(' ')[1]);
  return name === 'cat' && parent > 1 ? parent : pid;
}

/** The two parts of a device number as /proc/locks writes them (glibc's gnu_dev_major and gnu_dev_minor), in hex. */
function major(dev: bigint): string {
  return (((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)).toString(16).padStart(2, '0');
}

function minor(dev: bigint): string {
  return ((dev & 0xffn) | ((dev >> 12n) & ~0xffn)).toString(16).padStart(2, '0');
}
