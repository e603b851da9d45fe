/** A TCP connection's way between two programs, with delay, silence, resets, and an end that can be exchanged. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from './ports.ts';

/** Silent in both directions, or for answers only. */
export type LinkMode = 'passes' | 'silent' | 'answers are lost';

interface Pair {
  client: Socket;
  server: Socket;
  /** Bytes that wait. */
  up: Buffer[];
  down: Buffer[];
}

/** The kernel tells the other side of an end that happened in a silent link when the link ends. */
const LATE_END_MS = 50;

export class Link {
  readonly port: number;
  /** Where new connections go: a port of this machine, or the path of a socket. */
  target: number | string;
  #mode: LinkMode = 'passes';
  #delayMs = 0;
  readonly #pairs = new Set<Pair>();
  readonly #server: Server;

  private constructor(port: number, target: number | string) {
    this.port = port;
    this.target = target;
    this.#server = createServer((client) => this.#join(client));
  }

  static async to(target: number): Promise<Link> {
    const link = await Link.closed(target);
    await link.open();
    return link;
  }

  /** One that refuses connections until `open`, as a machine that runs without the program. */
  static async closed(target: number | string): Promise<Link> {
    return new Link(await freePort(), target);
  }

  async open(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  set(mode: LinkMode, delayMs = 0): void {
    this.#mode = mode;
    this.#delayMs = delayMs;
    for (const pair of this.#pairs) this.#flush(pair);
  }

  /** RST on both sides of every connection; the socket of a path knows only the end. */
  reset(): void {
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy();
      if (server.remoteAddress === undefined) server.destroy();
      else server.resetAndDestroy();
    }
    this.#pairs.clear();
  }

  close(): void {
    this.#server.close();
    this.reset();
  }

  #join(client: Socket): void {
    const { target } = this;
    const server = typeof target === 'string' ? connect(target) : connect(target, '127.0.0.1');
    const pair: Pair = { client, server, up: [], down: [] };
    this.#pairs.add(pair);
    const gone = () => {
      if (!this.#pairs.delete(pair)) return;
      this.#flush(pair);
      setTimeout(() => [client, server].map((socket) => socket.destroy()), this.#mode === 'passes' ? 0 : LATE_END_MS);
    };
    for (const [socket, waiting] of [
      [client, pair.up],
      [server, pair.down],
    ] as const) {
      socket.setNoDelay();
      socket.on('error', gone).on('close', gone);
      socket.on('data', (bytes) => {
        waiting.push(bytes);
        if (this.#delayMs > 0) setTimeout(() => this.#flush(pair), this.#delayMs);
        else this.#flush(pair);
      });
    }
  }

  #flush({ client, server, up, down }: Pair): void {
    if (this.#mode === 'silent') return;
    for (const bytes of up.splice(0)) if (server.writable) server.write(bytes);
    if (this.#mode === 'answers are lost') return;
    for (const bytes of down.splice(0)) if (client.writable) client.write(bytes);
  }
}
