/** A TCP connection's way between two programs, with delay, silence and resets. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../../helpers/ports.ts';

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
  /** Where new connections go. */
  target: number;
  #mode: LinkMode = 'passes';
  #delayMs = 0;
  readonly #pairs = new Set<Pair>();
  readonly #server: Server;

  private constructor(port: number, target: number) {
    this.port = port;
    this.target = target;
    this.#server = createServer((client) => this.#join(client)).listen(port, '127.0.0.1');
  }

  static async to(target: number): Promise<Link> {
    const link = new Link(await freePort(), target);
    await new Promise((resolve) => link.#server.once('listening', resolve));
    return link;
  }

  set(mode: LinkMode, delayMs = 0): void {
    this.#mode = mode;
    this.#delayMs = delayMs;
    for (const pair of this.#pairs) this.#flush(pair);
  }

  /** RST on both sides of every connection. */
  reset(): void {
    for (const { client, server } of this.#pairs) for (const socket of [client, server]) socket.resetAndDestroy();
    this.#pairs.clear();
  }

  close(): void {
    this.#server.close();
    this.reset();
  }

  #join(client: Socket): void {
    const server = connect(this.target, '127.0.0.1');
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
