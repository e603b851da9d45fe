/**
 * Limits the bytes of answers that a client without credentials does not read: 300 connections held 182 MiB in the kernel, which keeps them
 * for up to two minutes after uWebSockets.js has closed. The bytes of large answers are added up for each client. Above the limit, the
 * kernel's table of connections (peers.ts) shows what the client has not acknowledged, and the sum continues from there: a client that reads
 * costs one read of the table for each CLIENT_UNREAD_BYTES_MAX bytes. Only Linux has the table; elsewhere the sum is cleared.
 */
import type { Client, ClientLoad } from './clients.ts';
import { type Peers, readPeers } from './peers.ts';

/** How long a client that did not read is refused without another read of the table. */
const REFUSED_MS = 1_000;

interface UnreadLimitOptions {
  /** CLIENT_UNREAD_BYTES_MAX */
  bytesMax: number;
  /** HOST and the port on which this process listens. */
  host: string;
  port: () => number;
  /** Monotonic clock, in milliseconds. */
  nowMs: () => number;
}

export class UnreadLimit {
  readonly #options: UnreadLimitOptions;
  readonly #refusedUntilMs = new WeakMap<ClientLoad, number>();
  #reading: Promise<Peers> | null = null;

  constructor(options: UnreadLimitOptions) {
    this.#options = options;
  }

  /** True if the client may have left more than the limit unread: ask `isOver` before the next large answer. */
  isSuspect({ load }: Client): boolean {
    return load.sentBytes > this.#options.bytesMax;
  }

  /**
   * Whether the client leaves more than the limit unread on all its connections. Send the answer in the turn in which this resolves with
   * false: each of several waiting answers checks the sum again.
   */
  async isOver(client: Client): Promise<boolean> {
    const { load, network } = client;
    const { bytesMax, nowMs } = this.#options;
    while (this.isSuspect(client)) {
      if (nowMs() < (this.#refusedUntilMs.get(load) ?? 0)) return true;
      this.#reading ??= readPeers(this.#options.host, this.#options.port()).finally(() => {
        this.#reading = null;
      });
      const unread = (await this.#reading).get(network)?.unreadBytes ?? 0;
      if (unread > bytesMax) this.#refusedUntilMs.set(load, nowMs() + REFUSED_MS);
      else if (this.isSuspect(client)) load.sentBytes = unread;
    }
    return false;
  }
}
