/** What the kernel knows of a started Weir: its processes and ports. They are found by DATA_DIR, which no other program has. */
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';

export interface Seen {
  pid: number;
  parent: number;
  /** Its arguments, separated by spaces. */
  command: string;
}

/** Running processes with this DATA_DIR in their environment or on their command line: Weir, helpers, Postgres. */
export async function processesOf(dataDir: string): Promise<Seen[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const seen = await Promise.all(
    pids.map(async (pid) => {
      const process = await look(pid);
      if (process === null || pid === globalThis.process.pid) return [];
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      const ours = environment.split('\0').includes(`DATA_DIR=${dataDir}`) || process.command.includes(`${dataDir}/`);
      return ours ? [process] : [];
    }),
  );
  return seen.flat();
}

/** The first process of Postgres (from its pid file) and its children; null when it is not running. */
export async function postgresPids(dataDir: string): Promise<{ postmaster: number; backends: number[] } | null> {
  const file = await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8').catch(() => '');
  const postmaster = Number.parseInt(file, 10);
  if (!(postmaster > 0) || !(await look(postmaster))?.command.includes(dataDir)) return null;
  return { postmaster, backends: await childrenOf(postmaster) };
}

/** Children of a process, oldest first. */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text.trim().split(' ').filter(Boolean).map(Number);
}

/** Null for a process that has exited, or is a zombie. */
export async function look(pid: number): Promise<Seen | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (stat === '' || state === 'Z' || state === 'X') return null;
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return { pid, parent: Number(parent), command: command.replaceAll('\0', ' ').trim() };
}

/** Whether a program listens on the port. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
