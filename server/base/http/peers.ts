/**
 * The kernel's tables of TCP connections: what each client holds at a port. uWebSockets.js reports neither which connection was closed
 * nor which bytes a client has read. Only Linux has the tables.
 */
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { addressFromBytes, rateLimitKey } from '../../model/address.ts';

interface Peer {
  /** Connections that the server has not closed, of all processes of this machine. */
  connections: number;
  /** Bytes that the client has not acknowledged. */
  unreadBytes: number;
}

/** By network, see Client.network. */
export type Peers = ReadonlyMap<string, Peer>;

const IPV4 = { path: '/proc/net/tcp', digits: 8 };
const IPV6 = { path: '/proc/net/tcp6', digits: 32 };
/** ESTABLISHED, and CLOSE_WAIT: the client has closed its side only. */
const OPEN_STATES = new Set(['01', '08']);
const LISTENING = '0A';

/**
 * Reads the connections to a port, in lines `slot: local_address:port remote_address:port state unacknowledged:unread ...`, in hex. Empty
 * where there is no table. A read takes as long with 60 connections as with none, because the kernel walks its whole hash table: 20 ms for
 * each of the two tables on a busy machine.
 * @param host the address on which the server listens. Connections to an IPv6 address, also those over IPv4, are in a table of their own.
 */
export async function readPeers(host: string, port: number): Promise<Peers> {
  const kind = isIP(host);
  const tables = kind === 0 ? [IPV4, IPV6] : [kind === 4 ? IPV4 : IPV6];
  const portDigits = port.toString(16).toUpperCase().padStart(4, '0');
  const peers = new Map<string, Peer>();
  for (const { path, digits } of tables) {
    const byAddress = new Map<string, Peer>();
    for (const line of (await readFile(path, 'latin1').catch(() => '')).split('\n')) {
      const local = line.indexOf(': ') + 2;
      if (line.slice(local + digits + 1, local + digits + 5) !== portDigits) continue;
      const remote = local + digits + 6;
      const state = line.slice(remote + digits + 6, remote + digits + 8);
      if (state === LISTENING) continue;
      const unacknowledged = Number.parseInt(line.slice(remote + digits + 9, remote + digits + 17), 16);
      add(byAddress, line.slice(remote, remote + digits), Number(OPEN_STATES.has(state)), unacknowledged);
    }
    for (const [hex, { connections, unreadBytes }] of byAddress)
      add(peers, rateLimitKey(addressFromBytes(bytesOf(hex))), connections, unreadBytes);
  }
  return peers;
}

function add(peers: Map<string, Peer>, key: string, connections: number, unreadBytes: number): void {
  const peer = peers.get(key);
  if (peer === undefined) return void peers.set(key, { connections, unreadBytes });
  peer.connections += connections;
  peer.unreadBytes += unreadBytes;
}

/** The kernel writes each 32 bits of an address in the byte order of the machine, which is little-endian wherever Weir runs. */
function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, 'hex').swap32();
}
