/** Builders of requests, and a client on a plain socket for requests that `fetch` refuses. */
import { createHmac } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { PATIENCE_MS } from './wait.ts';

/** Whether the binary of uWebSockets.js 3.0.6 for this Node is of a later release of the library, with another parser. */
export const hasLaterParser = Number(process.versions.modules) > 127;

/** `sha256=<hex>` as a sender computes it, independent of Weir's own code. */
export function signatureOf(secret: string, body: string | Uint8Array): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** Arguments of `fetch` for a signed delivery. */
export function signedRequest({
  secret,
  body = '{"hello":"world"}',
  header = 'X-Hub-Signature-256',
  headers = {},
}: {
  secret: string | null;
  body?: string | Uint8Array<ArrayBuffer>;
  header?: string;
  headers?: Record<string, string>;
}) {
  const signed: Record<string, string> = secret === null ? {} : { [header]: signatureOf(secret, body) };
  return { method: 'POST', body, headers: { 'Content-Type': 'application/json', ...signed, ...headers } };
}

export interface RawAnswer {
  status: number;
  /** Names in lower case; the last of repeated fields. */
  headers: Record<string, string>;
  body: Buffer;
  /** All received bytes, head and body. */
  text: string;
}

/** A connection on which the test controls every byte. */
export class RawClient {
  readonly #socket: Socket;
  #received = Buffer.alloc(0);
  #closed = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay();
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    // A server may end a connection with a reset.
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
  }

  static connect(port: number, localAddress?: string): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, ...(localAddress === undefined ? {} : { localAddress }) });
      const client = new RawClient(socket);
      socket.once('connect', () => resolve(client)).once('error', reject);
    });
  }

  /** Resolves when the kernel has accepted the bytes, or the connection is closed. */
  send(bytes: string | Uint8Array): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#socket.off('close', done);
        resolve();
      };
      this.#socket.once('close', done);
      this.#socket.write(bytes, done);
    });
  }

  /**
   * The next final answer (100 Continue is read over); null when the connection ended without a whole one. Rejects after `timeoutMs`.
   * @param toHead the answer to HEAD has the length of a body and no body.
   */
  async answer({ toHead = false, timeoutMs = PATIENCE_MS } = {}): Promise<RawAnswer | null> {
    const endMs = performance.now() + timeoutMs;
    for (;;) {
      const found = parseAnswer(this.#received, toHead);
      if (found !== null) {
        this.#received = this.#received.subarray(found.bytes);
        if (found.answer.status < 200) continue;
        return found.answer;
      }
      if (this.#closed) return null;
      if (!(await this.#more(endMs - performance.now())))
        throw new Error(`no answer after ${timeoutMs} ms; so far: ${this.#received.toString('latin1').slice(0, 200)}`);
    }
  }

  /** Resolves when the server has closed the connection; rejects after `timeoutMs`. */
  async ended({ timeoutMs = PATIENCE_MS } = {}): Promise<void> {
    const endMs = performance.now() + timeoutMs;
    while (!this.#closed)
      if (!(await this.#more(endMs - performance.now()))) throw new Error(`still open after ${timeoutMs} ms`);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Resets the connection. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** False if nothing happened in time. */
  #more(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
}

/** Sends bytes on a new connection; returns the first response, or null when the server closed without one. */
export async function rawRequest(port: number, bytes: string | Uint8Array): Promise<RawAnswer | null> {
  const client = await RawClient.connect(port);
  try {
    void client.send(bytes);
    return await client.answer({ toHead: Buffer.from(bytes.slice(0, 5)).toString('latin1') === 'HEAD ' });
  } finally {
    client.destroy();
  }
}

function parseAnswer(received: Buffer, toHead: boolean): { answer: RawAnswer; bytes: number } | null {
  const headEnd = received.indexOf('\r\n\r\n');
  if (headEnd < 0) return null;
  const [statusLine, ...lines] = received.subarray(0, headEnd).toString('latin1').split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) headers[line.slice(0, line.indexOf(':')).toLowerCase()] = line.replace(/^[^:]*:\s*/, '');
  const interim = / 1\d\d /.test(statusLine!);
  const bodyBytes = toHead || interim ? 0 : Number(headers['content-length'] ?? 0);
  const bytes = headEnd + 4 + bodyBytes;
  if (received.length < bytes) return null;
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine!)?.[1]);
  const body = received.subarray(headEnd + 4, bytes);
  return { answer: { status, headers, body, text: received.subarray(0, bytes).toString('latin1') }, bytes };
}
