/** A program that receives forwarded deliveries: a real HTTP server whose answers a test decides. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface ForwardedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Answers a request, or does not. */
export type Answering = (response: ServerResponse, request: IncomingMessage, arrived: ForwardedRequest) => void;

const answer204: Answering = (response) => void response.writeHead(204).end();

export class ForwardTarget {
  readonly arrived: ForwardedRequest[] = [];
  /** Connections since the start. */
  connections = 0;
  answering: Answering = answer204;
  #port = 0;
  #server = createServer((request, response) => void this.#answer(request, response));

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook`;
  }

  /** Starts, or starts again at the same port. */
  async start(): Promise<void> {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.on('connection', () => {
      this.connections += 1;
    });
    await new Promise<void>((listening) => this.#server.listen(this.#port, '127.0.0.1', listening));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = '', url: path = '', headers } = request;
    const arrived = { method, path, headers, body: Buffer.concat(chunks) };
    this.arrived.push(arrived);
    this.answering(response, request, arrived);
  }
}
