/** The contestants of `receive`: all run at the same time, on one machine and one database. */
import { randomUUID } from 'node:crypto';
import { builtFile } from '../../server/base/files/build.ts';
import { startChild } from '../../server/operate/load/child.ts';
import { freePort } from '../../server/operate/load/environment.ts';
import { gcFlags } from '../../server/operate/primary/forks.ts';
import { storedText } from '../../server/receive/ingest/store.ts';
import { isoTime } from '../../server/store/ids.ts';
import type { BenchDatabase } from './database.ts';
import type { BenchContext } from './outcome.ts';
import { startWeir } from './weir.ts';
import { emptiedTables, type Store } from './window.ts';

export interface Contestant {
  name: string;
  url: string;
  /** Ids of the serving processes. */
  processes: number[];
  /** Null when the contestant stores nothing. */
  store: Store | null;
}

export const WEIR_1 = 'Weir, 1 process';
export const WEIR_2 = 'Weir, 2 processes';
export const BARE = 'bare uWebSockets.js, 1 process';
export const LEAST = 'least program, 1 process';

/** Size of Weir's 202 answer in bytes. */
const ANSWER_BYTES = storedText(randomUUID(), randomUUID(), isoTime(Date.now()), 1024, '').length;

/** Starts Weir with one process and with two, the least program and the bare answer, in the order of the rotation. `undo` stops them. */
export async function startContestants(context: BenchContext, bench: BenchDatabase): Promise<Contestant[]> {
  const contestants: Contestant[] = [];
  const store = emptiedTables(bench.database, ['events']);
  for (const [name, processes] of [
    [WEIR_1, 1],
    [WEIR_2, 2],
  ] as const) {
    context.say(`starting ${name}`);
    const weir = await startWeir({ ...bench, processes });
    context.undo(() => weir.stop());
    contestants.push({ name, url: weir.url, processes: weir.processes, store });
  }
  const least = await startLeast(context, bench);
  return [...contestants, { ...least, processes: [least.pid], store }, await startBare(context, bench)];
}

/** Starts the least program on this database. `undo` stops it. */
export function startLeast(context: BenchContext, { directory, conninfo, secret }: BenchDatabase) {
  return startPeer(context, LEAST, 'least', directory, (port) => [String(port), conninfo, secret], gcFlags);
}

/** Starts the bare answer. `undo` stops it. */
export async function startBare(context: BenchContext, { directory }: BenchDatabase): Promise<Contestant> {
  const bare = await startPeer(context, BARE, 'bare', directory, (port) => [String(port), String(ANSWER_BYTES)]);
  return { ...bare, processes: [bare.pid], store: null };
}

/** Starts a file of bench/peers on a free port, and waits until it listens. `undo` stops it. @param nodeFlags flags of Node */
export async function startPeer(
  { undo, say }: BenchContext,
  name: string,
  file: string,
  directory: string,
  argsOf: (port: number) => string[],
  nodeFlags: readonly string[] = [],
) {
  say(`starting ${name}`);
  const port = await freePort();
  const environment = { ...process.env, NODE_ENV: 'production' };
  const args = [...nodeFlags, builtFile(`bench/peers/${file}.js`), ...argsOf(port)];
  const peer = await startChild({ name, args, environment, directory, readyText: 'listening' });
  undo(() => peer.stop());
  return { name, pid: peer.pid, url: urlOn(port) };
}

/** URL of a webhook that the contestant on this port accepts. */
function urlOn(port: number): string {
  return `http://127.0.0.1:${port}/in/${randomUUID()}`;
}
