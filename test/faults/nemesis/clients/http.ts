/** An HTTP client that keeps connections, ends a request at any time, and tells a missing response from every other one. */
import { Agent, request } from 'node:http';

export interface Order {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
  timeoutMs?: number;
  /** Not one that was kept. */
  ownConnection?: boolean;
  /** Ends the request after this time, as a sender that gives up. */
  endAfterMs?: number | undefined;
}

export interface Reply {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  body: any;
}

const TIMEOUT_MS = 20_000;
const CONNECTIONS_MAX = 80;

/** The message of a request without a response within its time. */
export const NO_ANSWER = 'no answer in time';

export class Client {
  readonly #port: number;
  /** It closes idle connections before the server does, after 8 s. */
  readonly #kept = new Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX, timeout: 4_000 });

  constructor(port: number) {
    this.#port = port;
  }

  /** Rejects without a whole response. */
  send(order: Order): Promise<Reply> {
    const { method = 'POST', path, headers = {}, body, timeoutMs = TIMEOUT_MS, endAfterMs, ownConnection } = order;
    const agent = endAfterMs === undefined && !ownConnection ? this.#kept : false;
    return new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port: this.#port, method, path, headers, agent });
      const timer = setTimeout(() => sent.destroy(new Error(NO_ANSWER)), endAfterMs ?? timeoutMs);
      sent.once('close', () => clearTimeout(timer)).once('error', reject);
      sent.once('response', async (response) => {
        try {
          const chunks: Buffer[] = [];
          for await (const chunk of response) chunks.push(chunk);
          const text = Buffer.concat(chunks).toString();
          const isJson = /json/.test(response.headers['content-type'] ?? '');
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            text,
            body: isJson ? JSON.parse(text) : null,
          });
        } catch (error) {
          reject(error);
        }
      });
      sent.end(body);
    });
  }

  close(): void {
    this.#kept.destroy();
  }
}
