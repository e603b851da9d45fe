/** The HTTP server: attaches the route table to uWebSockets.js and counts open requests. */
import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import uWS from 'uWebSockets.js';
import { rmSync } from 'node:fs';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { Settings } from '../settings/read.ts';
import { Stage } from '../telemetry/stages.ts';
import type { Clients } from './clients.ts';
import type { ConnectionLimit } from './connections.ts';
import { Exchange, type ExchangeHost, type ExchangeOptions } from './exchange.ts';
import { framingProblem } from './framing.ts';
import { type Problem, ProblemError, problem, problemLater } from './problem.ts';
import { type Method, parametersIn, pathRules, type Route } from './route.ts';

export interface ServerOptions extends ExchangeOptions {
  clients: Pick<Clients, 'connected' | 'of'>;
  connections: Pick<ConnectionLimit, 'admits' | 'crowdedAbove'>;
  settings: Pick<Settings, 'HEADER_BYTES_MAX' | 'CLIENT_REQUESTS_MAX' | 'CLIENT_UNREAD_SECONDS' | 'CHUNKED_BODIES'>;
  /** Called before a request is served or refused. Sets the fields that every answer has. */
  prepare: (exchange: Exchange) => void;
  /** Called once for each request, after it was answered or aborted. */
  onFinished: (exchange: Exchange) => void;
  /** The problem of an error that an unavailable database caused, which is not a bug; null for any other error. */
  outageProblem: (error: unknown) => Problem | null;
  /** Answers requests that match no route. */
  refuse: (exchange: Exchange, code: 'not_found' | 'method_not_allowed') => void;
  /** Called after a handler threw because of a bug and the exchange was answered 500. */
  onFailure: (exchange: Exchange, error: unknown) => void;
}

/** Few connections can arrive in a turn of the event loop this short. A busy process may have no such turn, so the wait has a limit. */
const SHORT_TURN_MS = 0.1;
const ACCEPTING_MS_MAX = 500;
/** The first answers without a body do not end their connections: so few of them take little memory, even if all are unread. */
const BODILESS_KEPT = 1_000;
/** Share of the later answers without a body that end their connections. See endsBodiless. */
const BODILESS_ENDING_SHARE = 0.01;

export class HttpServer implements ExchangeHost {
  readonly options: ServerOptions;
  readonly newRequestId = requestIdSource();
  draining = false;
  /** Requests neither answered nor aborted yet. */
  openRequests = 0;
  /** TCP connections, including idle ones. */
  connections = 0;
  readonly #app: TemplatedApp;
  #listener: us_listen_socket | null = null;
  #onIdle: (() => void) | null = null;
  #bodiless = 0;
  #finished = 0;

  constructor(routes: readonly Route[], options: ServerOptions) {
    this.options = options;
    this.#app = uWS.App();
    // biome-ignore lint/suspicious/useIterableCallbackReturn: this filter is a connection hook, not Array.prototype.filter
    this.#app.filter((res, change) => {
      this.connections += Number(change);
      if (Number(change) > 0) this.#onConnected(res);
    });
    this.#attach(routes);
  }

  /** Listens with SO_REUSEPORT, like the other processes. Resolves with the port; rejects if it is unavailable. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#app.listen(host, port, (socket) => {
        if (socket === false) return reject(new Error(`cannot listen on ${host}:${port}`));
        this.#listener = socket;
        resolve(uWS.us_socket_local_port(socket));
      });
    });
  }

  /** Listens on a Unix socket, and replaces a file at its path. Its folder decides who can connect. Rejects if it is unavailable. */
  listenUnix(path: string): Promise<void> {
    return new Promise((resolve, reject) => {
      rmSync(path, { force: true });
      this.#app.listen_unix((socket) => {
        // uWebSockets.js passes false, which its type lacks.
        if (!socket) return reject(new Error(`cannot listen on ${path}`));
        this.#listener = socket;
        resolve();
      }, path);
    });
  }

  /**
   * Stops accepting connections. Requests on open connections are still answered, with `Connection: close`. When the listener closes, the
   * kernel resets connections that wait to be accepted. Each turn accepts the waiting ones, so the listener closes after a short turn: 1 reset
   * in 29 restarts, with 2,000 to 3,000 connections a second, instead of 14.
   */
  async stopListening(): Promise<void> {
    this.draining = true;
    // The first turn began before this call.
    await setImmediate();
    const endMs = performance.now() + ACCEPTING_MS_MAX;
    for (let turnMs = Infinity; turnMs >= SHORT_TURN_MS && performance.now() < endMs; ) {
      const startedMs = performance.now();
      await setImmediate();
      turnMs = performance.now() - startedMs;
    }
    if (this.#listener !== null) uWS.us_listen_socket_close(this.#listener);
    this.#listener = null;
  }

  /**
   * Resolves when no connection is left, or no connection has carried a request for `quietMs`. The wait is needed because a
   * keep-alive client may already have sent its next request when no request is open.
   */
  async quiet(quietMs: number): Promise<void> {
    for (;;) {
      await this.idle();
      if (this.connections === 0) return;
      const finished = this.#finished;
      await delay(quietMs);
      // After a stall the timer runs first: this reads what has arrived since.
      await setImmediate();
      if (this.openRequests === 0 && this.#finished === finished) return;
    }
  }

  /** Resolves when no request is open. */
  idle(): Promise<void> {
    if (this.openRequests === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Closes every connection at once. */
  close(): void {
    this.#app.close();
  }

  /**
   * uWebSockets.js buffers answers that a client does not read. It reports this only for answers with a body, and not which requests share a
   * connection. So random answers without a body end their connections: a client that reads nothing leaves 100 answers unread on average, and
   * over 2,000 once in 500 million connections.
   */
  endsBodiless(): boolean {
    return ++this.#bodiless > BODILESS_KEPT && Math.random() < BODILESS_ENDING_SHARE;
  }

  finished(exchange: Exchange): void {
    this.openRequests--;
    this.#finished++;
    this.options.onFinished(exchange);
    if (this.openRequests === 0) this.#onIdle?.();
  }

  /** Nothing of a new connection was read yet, so closing it aborts no request. */
  #onConnected(res: HttpResponse): void {
    const { clients, connections } = this.options;
    if (!connections.admits(clients.connected(res, this.connections === 1), this.connections)) res.close();
  }

  get closesConnections(): boolean {
    return this.draining || this.connections > this.options.connections.crowdedAbove;
  }

  #attach(routes: readonly Route[]): void {
    const { refuse } = this.options;
    for (const route of routes) attach[route.method](this.#app, route.path, this.#handlerOf(route));
    for (const { path, allow, others } of pathRules(routes)) {
      const handle = (exchange: Exchange) => {
        exchange.setHeader('allow', allow);
        refuse(exchange, 'method_not_allowed');
      };
      const refused = this.#handlerOf({ method: 'GET', path, handle });
      this.#app.any(path, refused);
      for (const method of others) attach[method](this.#app, path, refused);
    }
    const notFound = (exchange: Exchange) => refuse(exchange, 'not_found');
    this.#app.any('/*', this.#handlerOf({ method: 'GET', path: '/*', handle: notFound }));
  }

  #handlerOf(route: Route): NativeHandler {
    const parametersCount = parametersIn(route.path);
    return (res, req) => this.#serve(route, parametersCount, res, req);
  }

  #serve(route: Route, parametersCount: number, res: HttpResponse, req: HttpRequest): void {
    const exchange = new Exchange(res, req, this, route, parametersCount);
    const { hosts, framing, headerBytes, client } = exchange;
    const { prepare, settings } = this.options;
    this.openRequests++;
    prepare(exchange);
    // A proxy on the way may have used the other Host (RFC 9112, section 3.2). uWebSockets.js itself refuses a request without a Host.
    if (hosts > 1) return exchange.problemAndClose('host_repeated');
    const unframed = framingProblem(framing, settings.CHUNKED_BODIES === 'accept');
    if (unframed !== null) return exchange.problemAndClose(unframed);
    if (headerBytes > settings.HEADER_BYTES_MAX) return exchange.problem(problem('headers_too_large'));
    if (client.load.requests > settings.CLIENT_REQUESTS_MAX) return exchange.problem(problemLater('client_busy', 1));
    exchange.clock.lap(Stage.accept);
    try {
      const pending = route.handle(exchange);
      if (pending !== undefined) pending.catch((error) => this.failed(exchange, error));
    } catch (error) {
      this.failed(exchange, error);
    }
  }

  failed(exchange: Exchange, error: unknown): void {
    if (error instanceof ProblemError) return exchange.problem(error.problem);
    const outage = this.options.outageProblem(error);
    if (outage !== null) return exchange.problem(outage);
    exchange.problem(problem('internal'));
    this.options.onFailure(exchange, error);
  }
}

type NativeHandler = (res: HttpResponse, req: HttpRequest) => void;

const attach: Record<Method, (app: TemplatedApp, path: string, handler: NativeHandler) => void> = {
  GET: (app, path, handler) => app.get(path, handler).head(path, handler),
  POST: (app, path, handler) => app.post(path, handler),
  PUT: (app, path, handler) => app.put(path, handler),
  PATCH: (app, path, handler) => app.patch(path, handler),
  DELETE: (app, path, handler) => app.del(path, handler),
  OPTIONS: (app, path, handler) => app.options(path, handler),
};

/** Generates request ids that are unique, short and sortable within the process. */
function requestIdSource(): () => string {
  const prefix = `${process.pid.toString(36)}-${Date.now().toString(36)}-`;
  let counter = 0;
  return () => prefix + (counter++).toString(36);
}
