/**
 * Limits the bytes of answers that a client without credentials does not read. The kernel takes them: a request for 614 kB was complete
 * although its client read nothing, and 300 connections held 182 MiB. uWebSockets.js closes such a connection after 10 s, but the kernel
 * keeps the bytes, and tries to send them for up to two minutes.
 *
 * The bytes of large answers are added up for each client. When they exceed the limit, the kernel's table of connections tells how many
 * bytes the client has not acknowledged, and the sum continues from there. A client that reads costs one read of the table for each
 * CLIENT_UNREAD_BYTES_MAX bytes, and a client that does not read is refused. Only Linux has the table; elsewhere the sum is cleared.
 * A read takes as long with 60 connections as with none, because the kernel walks its whole hash table: 20 ms for each of the two tables on
 * a busy machine. With a read for each 8 MiB it was most of the cost of openapi.json without compression; 32 MiB are 100 of these.
 */
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { addressFromBytes, rateLimitKey } from '../../model/address.ts';
import type { Client, ClientLoad } from './clients.ts';

/** How long a client that did not read is refused without another read of the table. */
const REFUSED_MS = 1_000;
const TABLES = { ipv4: '/proc/net/tcp', ipv6: '/proc/net/tcp6' };

/** Unacknowledged bytes by network, see Client.network. */
type UnreadBytes = ReadonlyMap<string, number>;

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
  #reading: Promise<UnreadBytes> | null = null;

  constructor(options: UnreadLimitOptions) {
    this.#options = options;
  }

  /** True if the client may have left more than the limit unread: ask `isOver` before the next large answer. */
  isSuspect({ load }: Client): boolean {
    return load.sentBytes > this.#options.bytesMax;
  }

  /**
   * True if the client leaves more than the limit unread, on all its connections to this port. Send the answer in the turn in which this
   * resolves with false: each of several waiting answers checks the sum again.
   */
  async isOver(client: Client): Promise<boolean> {
    const { load, network } = client;
    const { bytesMax, nowMs } = this.#options;
    while (this.isSuspect(client)) {
      if (nowMs() < (this.#refusedUntilMs.get(load) ?? 0)) return true;
      this.#reading ??= readUnread(tablesOf(this.#options.host), this.#options.port()).finally(() => {
        this.#reading = null;
      });
      const unread = (await this.#reading).get(network) ?? 0;
      if (unread > bytesMax) this.#refusedUntilMs.set(load, nowMs() + REFUSED_MS);
      else if (this.isSuspect(client)) load.sentBytes = unread;
    }
    return false;
  }
}

/** Connections to an IPv6 address are in a table of their own, those over IPv4 too. A name may have addresses of both kinds. */
function tablesOf(host: string): string[] {
  const kind = isIP(host);
  return kind === 0 ? [TABLES.ipv4, TABLES.ipv6] : [kind === 4 ? TABLES.ipv4 : TABLES.ipv6];
}

/** Reads the table: `slot local_address:port remote_address:port state unacknowledged:unread ...`, in hex. */
async function readUnread(tables: readonly string[], port: number): Promise<UnreadBytes> {
  const bytes = new Map<string, number>();
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const table of tables) {
    for (const line of (await readFile(table, 'latin1').catch(() => '')).split('\n')) {
      const [, from, to, state, queues] = line.trim().split(/\s+/, 5);
      if (from === undefined || !from.endsWith(local) || state === LISTENING) continue;
      const unread = Number.parseInt(queues!, 16);
      if (unread === 0) continue;
      const network = rateLimitKey(addressFromBytes(addressIn(to!)));
      bytes.set(network, (bytes.get(network) ?? 0) + unread);
    }
  }
  return bytes;
}

const LISTENING = '0A';

/** The kernel writes each 32 bits of an address as a number of this machine: on all that Weir runs on, the lowest byte first. */
function addressIn(text: string): Uint8Array {
  const address = Buffer.from(text.slice(0, text.indexOf(':')), 'hex');
  return address.swap32();
}
