/** The contestants of `receive`: all run at the same time, on one machine and one database. */
import { randomUUID } from 'node:crypto';
import { startChild } from '../../server/operate/load/child.ts';
import { freePort } from '../../server/operate/load/environment.ts';
import { gcFlags } from '../../server/operate/primary/forks.ts';
import { storedText } from '../../server/receive/ingest/store.ts';
import { isoTime } from '../../server/store/ids.ts';
import type { BenchDatabase } from './database.ts';
import type { BenchContext } from './outcome.ts';
import { peerFile } from './paths.ts';
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
export async function startContestants({ undo, say }: BenchContext, bench: BenchDatabase): Promise<Contestant[]> {
  const { directory, conninfo, secret } = bench;
  const contestants: Contestant[] = [];
  const store = emptiedTables(bench.database, ['events']);
  for (const [name, processes] of [
    [WEIR_1, 1],
    [WEIR_2, 2],
  ] as const) {
    say(`starting ${name}`);
    const weir = await startWeir({ ...bench, processes });
    undo(() => weir.stop());
    contestants.push({ name, url: weir.url, processes: weir.processes, store });
  }

  say(`starting ${LEAST}`);
  const port = await freePort();
  const least = await startPeer(LEAST, 'least', [String(port), conninfo, secret], directory, gcFlags);
  undo(() => least.stop());
  contestants.push({ name: LEAST, url: urlOn(port), processes: [least.pid], store });
  contestants.push(await startBare({ undo, say }, directory));
  return contestants;
}

/** Starts the bare answer. `undo` stops it. */
export async function startBare(
  { undo, say }: Pick<BenchContext, 'undo' | 'say'>,
  directory: string,
): Promise<Contestant> {
  say(`starting ${BARE}`);
  const port = await freePort();
  const bare = await startPeer(BARE, 'bare', [String(port), String(ANSWER_BYTES)], directory);
  undo(() => bare.stop());
  return { name: BARE, url: urlOn(port), processes: [bare.pid], store: null };
}

/** Starts a file of bench/peers and waits until it listens. @param nodeFlags flags of Node */
export function startPeer(
  name: string,
  file: string,
  args: string[],
  directory: string,
  nodeFlags: readonly string[] = [],
) {
  const environment = { ...process.env, NODE_ENV: 'production' };
  const all = [...nodeFlags, peerFile(file), ...args];
  return startChild({ name, args: all, environment, directory, readyText: 'listening' });
}

/** URL of a webhook that the contestant on this port accepts. */
export function urlOn(port: number): string {
  return `http://127.0.0.1:${port}/in/${randomUUID()}`;
}
