/** The HTTP server: attaches the route table to uWebSockets.js and counts open requests. */
import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import uWS from 'uWebSockets.js';
import { rmSync } from 'node:fs';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { Settings } from '../settings/read.ts';
import { Stage } from '../telemetry/stages.ts';
import type { BodyMemory } from './body.ts';
import type { Clients } from './clients.ts';
import type { ConnectionLimit } from './connections.ts';
import { Exchange, type ExchangeHost } from './exchange.ts';
import { Framing, framingProblem, framingWith } from './framing.ts';
import { type Problem, ProblemError, problem, problemLater } from './problem.ts';
import type { Method, Route } from './route.ts';
import type { UnreadLimit } from './unread.ts';

export interface ServerOptions {
  memory: BodyMemory;
  clients: Pick<Clients, 'connected' | 'of'>;
  connections: Pick<ConnectionLimit, 'admits' | 'crowdedAbove'>;
  settings: Pick<Settings, 'HEADER_BYTES_MAX' | 'CLIENT_REQUESTS_MAX' | 'CLIENT_UNREAD_SECONDS' | 'CHUNKED_BODIES'>;
  unread: UnreadLimit;
  /** Called before a request is served or refused. Sets the fields that every answer has. */
  prepare: (exchange: Exchange) => void;
  /** Called once for each request, after it was answered or aborted. */
  onFinished: (exchange: Exchange) => void;
  /** The problem of a database that is unavailable, which is not a bug; null: the error is another one. */
  outageProblem: (error: unknown) => Problem | null;
  /** Answers requests that match no route. */
  refuse: (exchange: Exchange, code: 'not_found' | 'method_not_allowed') => void;
  /** Called after a handler threw because of a bug and the exchange was answered 500. */
  onFailure: (exchange: Exchange, error: unknown) => void;
}

/** Answers without a body before the first of them ends its connection: a process that has sent few holds little. */
const BODILESS_KEPT = 1_000;
/** After those, the share of answers without a body that end their connection. See endsBodiless. */
const BODILESS_ENDING_SHARE = 0.01;

export class HttpServer implements ExchangeHost {
  readonly memory: BodyMemory;
  readonly unread: UnreadLimit;
  readonly unreadSeconds: number;
  readonly #acceptsChunked: boolean;
  draining = false;
  /** Requests neither answered nor aborted yet. */
  openRequests = 0;
  /** TCP connections, including idle ones. */
  connections = 0;
  readonly #app: TemplatedApp;
  readonly #options: ServerOptions;
  readonly #requestIds = requestIdSource();
  #listener: us_listen_socket | null = null;
  #onIdle: (() => void) | null = null;
  #bodiless = 0;
  #finished = 0;

  constructor(routes: readonly Route[], options: ServerOptions) {
    this.memory = options.memory;
    this.unread = options.unread;
    this.unreadSeconds = options.settings.CLIENT_UNREAD_SECONDS;
    this.#acceptsChunked = options.settings.CHUNKED_BODIES === 'accept';
    this.#options = options;
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

  /** Listens on a Unix socket, in place of what is at the path. Its folder decides who can connect. Rejects if it is unavailable. */
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

  /** Stops accepting connections. Requests on open connections are still answered, with `Connection: close`. */
  stopListening(): void {
    this.draining = true;
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
   * uWebSockets.js buffers the answers that a client does not read, reports this for a body only, and does not tell which requests share a
   * connection. So a random answer without a body ends its connection: a client that reads nothing leaves 100 on average, and over 2,000
   * once in 500 million connections.
   */
  endsBodiless(): boolean {
    return ++this.#bodiless > BODILESS_KEPT && Math.random() < BODILESS_ENDING_SHARE;
  }

  finished(exchange: Exchange): void {
    this.openRequests--;
    this.#finished++;
    this.#options.onFinished(exchange);
    if (this.openRequests === 0) this.#onIdle?.();
  }

  /** Nothing of a new connection was read yet, so closing it aborts no request. */
  #onConnected(res: HttpResponse): void {
    const { clients, connections } = this.#options;
    if (!connections.admits(clients.connected(res, this.connections === 1), this.connections)) res.close();
  }

  get isCrowded(): boolean {
    return this.connections > this.#options.connections.crowdedAbove;
  }

  #attach(routes: readonly Route[]): void {
    const { refuse } = this.#options;
    const methodsOf = new Map<string, string[]>();
    for (const route of routes) {
      const methods = methodsOf.get(route.path) ?? [];
      methods.push(...(route.allows ?? (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method])));
      methodsOf.set(route.path, methods);
      const parameters = parametersIn(route.path);
      const handler = (res: HttpResponse, req: HttpRequest) => this.#serve(route, parameters, res, req);
      attach[route.method](this.#app, route.path, handler);
    }
    // A wildcard route has no fixed method list, so it never answers 405.
    for (const [path, methods] of methodsOf) {
      if (path.endsWith('*')) continue;
      const parameters = parametersIn(path);
      const refused = (res: HttpResponse, req: HttpRequest) =>
        this.#serve(wrongMethod(path, methods, refuse), parameters, res, req);
      this.#app.any(path, refused);
      // uWebSockets.js prefers the method to the path: GET /events/replay, which has POST alone, would be GET /events/:id.
      for (const other of routes) {
        if (other.path !== path && !methods.includes(other.method) && matches(other.path, path))
          attach[other.method](this.#app, path, refused);
      }
    }
    const notFound: Route = { method: 'GET', path: '/*', handle: (exchange) => refuse(exchange, 'not_found') };
    this.#app.any('/*', (res, req) => this.#serve(notFound, 0, res, req));
  }

  #serve(route: Route, parametersCount: number, res: HttpResponse, req: HttpRequest): void {
    const headers: string[] = [];
    let headerBytes = 0;
    let hosts = 0;
    let framing = Framing.none as Framing;
    req.forEach((name, value) => {
      headers.push(name, value);
      headerBytes += name.length + value.length + 4;
      if (name.length === 4 && name === 'host') hosts++;
      framing = framingWith(framing, name, value);
    });
    const parameters: string[] = [];
    for (let index = 0; index < parametersCount; index++) parameters.push(req.getParameter(index));
    const client = this.#options.clients.of(res, headers);
    const sent = wellFormedRequestId(headers);
    const requestId = sent ?? this.#requestIds();
    this.openRequests++;
    const chunked = framing === Framing.chunked;
    const exchange = new Exchange(res, req, this, {
      // Only handlers of GET serve several methods (HEAD, and any for 405). Each call into uWebSockets.js costs 0.3 us.
      method: route.method === 'GET' ? req.getCaseSensitiveMethod() : route.method,
      route: route.path,
      parameters,
      headers,
      client,
      requestId,
      sentRequestId: sent !== undefined,
      chunked,
    });
    this.#options.prepare(exchange);
    // Programs on the way may judge by another one (RFC 9112, section 3.2). The parser refuses a request without a Host.
    if (hosts > 1) return exchange.problemAndClose('host_repeated');
    const unframed = framingProblem(framing, this.#acceptsChunked);
    if (unframed !== null) return exchange.problemAndClose(unframed);
    const { HEADER_BYTES_MAX, CLIENT_REQUESTS_MAX } = this.#options.settings;
    if (headerBytes > HEADER_BYTES_MAX) return exchange.problem(problem('headers_too_large'));
    if (client.load.requests > CLIENT_REQUESTS_MAX) return exchange.problem(problemLater('client_busy', 1));
    exchange.lap(Stage.accept);
    try {
      const pending = route.handle(exchange);
      if (pending !== undefined) pending.catch((error) => this.failed(exchange, error));
    } catch (error) {
      this.failed(exchange, error);
    }
  }

  failed(exchange: Exchange, error: unknown): void {
    if (error instanceof ProblemError) return exchange.problem(error.problem);
    const outage = this.#options.outageProblem(error);
    if (outage !== null) return exchange.problem(outage);
    exchange.problem(problem('internal'));
    this.#options.onFailure(exchange, error);
  }
}

type Handler = (res: HttpResponse, req: HttpRequest) => void;

function parametersIn(path: string): number {
  return path.split(':').length - 1;
}

/** Whether the path of a route is one of those that the pattern of another one serves, as /events/replay is of /events/:id. */
function matches(pattern: string, path: string): boolean {
  const parts = path.split('/');
  const wanted = pattern.split('/');
  const fits = (part: string, index: number) =>
    part === parts[index] || (part.startsWith(':') && !parts[index]!.startsWith(':'));
  return wanted.length === parts.length && wanted.every(fits);
}

const attach: Record<Method, (app: TemplatedApp, path: string, handler: Handler) => void> = {
  GET: (app, path, handler) => app.get(path, handler).head(path, handler),
  POST: (app, path, handler) => app.post(path, handler),
  PUT: (app, path, handler) => app.put(path, handler),
  PATCH: (app, path, handler) => app.patch(path, handler),
  DELETE: (app, path, handler) => app.del(path, handler),
  OPTIONS: (app, path, handler) => app.options(path, handler),
};

function wrongMethod(path: string, methods: readonly string[], refuse: ServerOptions['refuse']): Route {
  const allow = methods.join(', ');
  return {
    method: 'GET',
    path,
    handle: (exchange) => {
      exchange.setHeader('allow', allow);
      refuse(exchange, 'method_not_allowed');
    },
  };
}

/** Generates request ids that are unique, short and sortable within the process. */
function requestIdSource(): () => string {
  const prefix = `${process.pid.toString(36)}-${Date.now().toString(36)}-`;
  let counter = 0;
  return () => prefix + (counter++).toString(36);
}

/** Returns the sender's X-Request-Id if it is safe to log and echo. */
function wellFormedRequestId(headers: readonly string[]): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== 'x-request-id') continue;
    return /^[A-Za-z0-9._-]{1,64}$/.test(headers[i + 1]!) ? headers[i + 1] : undefined;
  }
  return undefined;
}
