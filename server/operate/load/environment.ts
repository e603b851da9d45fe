/** What a bench needs: a temporary folder, tables in the same state for every contestant, a free port, and a signed request. */
import { createHmac, randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmod, mkdtemp, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '../../store/connect/pool.ts';

/** Type number of tmpfs, Linux' file system in memory (linux/magic.h). */
export const TMPFS_MAGIC = 0x01021994;

/** Creates a folder for a database; the caller removes it. The path is short, because a socket path is limited to 107 bytes. */
export async function makeDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-bench-'));
  // When the bench runs as root, Postgres runs under another account, which needs search permission on the folder.
  await chmod(directory, 0o711);
  return directory;
}

/** True when the temporary folder is in memory, where fsync costs nothing. */
export async function isInMemory(): Promise<boolean> {
  return (await statfs(tmpdir())).type === TMPFS_MAGIC;
}

/** Empties a table and runs a checkpoint, so that no contestant pays for the writes of the previous one. */
export async function emptyTable(database: Database, table: string): Promise<void> {
  await database.query({ text: `truncate ${table}` });
  await database.query({ text: 'checkpoint' });
}

/** The range is below the kernel's ephemeral ports (32,768 and up), so that no outgoing connection takes a port after the check. */
const PORT_MIN = 11_000;
const PORT_COUNT = 10_000;

let next = Math.floor(Math.random() * PORT_COUNT);

/**
 * Returns a port of 127.0.0.1 on which nothing listens. No other call returns it while this process runs, in any process of the machine: its
 * caller may not listen yet. With `besides`, the port that many above it is free as well.
 */
export async function freePort({ besides = 0 } = {}): Promise<number> {
  for (;;) {
    const port = PORT_MIN + (next++ % PORT_COUNT);
    if ((await isFree(port)) && (besides === 0 || (await isFree(port + besides)))) return port;
  }
}

/** Holds the UDP port of this number, which nothing else uses, until the process ends. */
async function isFree(port: number): Promise<boolean> {
  const holder = createSocket('udp4').unref();
  const probe = createServer();
  try {
    await once(holder.bind({ port, address: '127.0.0.1', exclusive: true }), 'listening');
    await once(probe.listen(port, '127.0.0.1'), 'listening');
    await new Promise((closed) => probe.close(closed));
    return true;
  } catch {
    holder.close();
    return false;
  }
}

/** A request that is signed once and sent repeatedly. */
export interface BenchRequest {
  headers: Record<string, string>;
  body: string;
}

/** JSON of exactly `bytes` bytes that hardly compresses. */
export function benchBody(bytes: number): string {
  const frame = '{"action":"opened","data":""}';
  const fill = randomBytes(bytes)
    .toString('hex')
    .slice(0, bytes - frame.length);
  return frame.replace('""', `"${fill}"`);
}

/** Headers and body in GitHub's format. */
export function signedRequest(secret: string, body: string): BenchRequest {
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return { headers: { 'Content-Type': 'application/json', 'X-Hub-Signature-256': `sha256=${signature}` }, body };
}

/** The same request as the bytes of an HTTP/1.1 POST to 127.0.0.1 over a keep-alive connection. */
export function requestBytes(port: number, path: string, { headers, body }: BenchRequest): Buffer {
  const fields = { Host: `127.0.0.1:${port}`, ...headers, 'Content-Length': Buffer.byteLength(body) };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
}
