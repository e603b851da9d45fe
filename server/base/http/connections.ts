/**
 * Limits the open connections of this process, and those of one client address, so that they do not take all descriptors. uWebSockets.js
 * reports how many connections are open, but not which one was closed. So the connections of a client are an upper bound: those that it had
 * in the kernel's table (see peers.ts), and all that it has opened since. A bound near the limit leads to another read. uWebSockets.js
 * closes idle connections after 8 to 12 s, and offers no way to close them earlier. So a crowded process closes connections after their
 * next answer, and a full one refuses new ones.
 */
import { readFileSync } from 'node:fs';
import type { Client } from './clients.ts';
import { type Peers, readPeers } from './peers.ts';

const CROWDED_SHARE = 0.9;
/** A client whose bound exceeds this share of its limit is looked up in the kernel's table. */
const SUSPECT_SHARE = 0.75;
/** Pause between two reads of the table: with 18,000 connections each takes 60 ms, 25 of them of the event loop. */
export const READ_PAUSE_MS = 1_000;
/** When this many clients have opened connections since the last read, the table is read again. */
const CLIENTS_MAX = 10_000;
/** Descriptors that are left for the database, files and threads: an eighth of the limit, within these bounds. A process takes 31 when it is idle. */
const RESERVE = { share: 1 / 8, min: 128, max: 1_024 };
/** Largest default, for container runtimes that allow a billion descriptors: an idle connection takes 4 KiB. */
const DEFAULT_MAX = 65_536;
const CLIENT_DEFAULT_MIN = 1_024;

export type ConnectionRefusal = 'process' | 'client';

interface ConnectionLimitOptions {
  /** Connections of this process; see allowedConnections. */
  processMax: number;
  /** CLIENT_CONNECTIONS_MAX; undefined: the default. */
  clientMax: number | undefined;
  /** HOST and the port on which this process listens. */
  host: string;
  port: () => number;
  /** Monotonic clock, in milliseconds. */
  nowMs: () => number;
  onRefused: (limit: ConnectionRefusal, client: Client) => void;
  read?: (host: string, port: number) => Promise<Peers>;
}

export class ConnectionLimit {
  /** Above this number of connections, each answer closes its connection. */
  readonly crowdedAbove: number;
  readonly #options: Required<ConnectionLimitOptions>;
  readonly #clientMax: number;
  #counted: Peers = new Map();
  /** Connections opened since the last read began, by network. `#openedBefore`: those opened before the read in progress. */
  #opened = new Map<string, number>();
  #openedBefore: ReadonlyMap<string, number> = new Map();
  #isReading = false;
  #readMs = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionLimitOptions) {
    this.#options = { read: readPeers, ...options };
    this.#clientMax = options.clientMax ?? Math.max(CLIENT_DEFAULT_MIN, Math.floor(options.processMax / 4));
    this.crowdedAbove = Math.floor(options.processMax * CROWDED_SHARE);
  }

  /**
   * Whether a new connection may stay open.
   * @param connections of this process, including the new one.
   */
  admits(client: Client, connections: number): boolean {
    const refusal = connections > this.#options.processMax ? 'process' : this.#clientIsFull(client) ? 'client' : null;
    if (refusal !== null) this.#options.onRefused(refusal, client);
    return refusal === null;
  }

  #clientIsFull({ network, isInternal }: Client): boolean {
    if (isInternal) return false;
    const opened = (this.#opened.get(network) ?? 0) + 1;
    const bound = opened + (this.#openedBefore.get(network) ?? 0) + (this.#counted.get(network)?.connections ?? 0);
    const isFull = bound > this.#clientMax;
    if (!isFull) this.#opened.set(network, opened);
    if (bound > this.#clientMax * SUSPECT_SHARE || this.#opened.size >= CLIENTS_MAX) this.#count();
    return isFull;
  }

  #count(): void {
    const { host, port, nowMs, read } = this.#options;
    if (this.#isReading || nowMs() - this.#readMs < READ_PAUSE_MS) return;
    this.#isReading = true;
    this.#openedBefore = this.#opened;
    this.#opened = new Map();
    void read(host, port()).then((peers) => {
      this.#counted = peers;
      this.#openedBefore = new Map();
      this.#isReading = false;
      this.#readMs = nowMs();
    });
  }
}

/** The connections that a process may have. @param wanted CONNECTIONS_MAX @param openFiles its limit of open files */
export function allowedConnections(wanted: number | undefined, openFiles = readOpenFiles()): number {
  const reserve = Math.min(Math.max(openFiles * RESERVE.share, RESERVE.min), RESERVE.max);
  const allowed = Math.max(Math.floor(openFiles - reserve), Math.floor(openFiles / 4));
  return Math.min(wanted ?? DEFAULT_MAX, allowed);
}

/** The limit of open files of this process: Node has already raised it to the hard limit. Infinity if the system does not report it. */
function readOpenFiles(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'));
    return limit === null ? Number.POSITIVE_INFINITY : Number(limit[1]);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
