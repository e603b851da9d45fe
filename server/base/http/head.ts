/** The head of a request: a snapshot that outlives uWebSockets.js's HttpRequest. */
import type { HttpRequest } from 'uWebSockets.js';
import { Framing, framingWith } from './framing.ts';

export class RequestHead {
  readonly method: string;
  readonly path: string;
  /** Without the question mark. Empty for other methods than GET and HEAD, except on the ingest routes. */
  readonly query: string;
  readonly route: string;
  /** Path parameters, in order. */
  readonly parameters: readonly string[];
  /** Alternating field names (lower case) and values. Repeated fields are kept separate. */
  readonly headers: readonly string[];
  /** Bytes of the field lines. */
  readonly headerBytes: number;
  /** Number of Host fields. */
  readonly hosts: number;
  readonly framing: Framing;
  readonly requestId: string;
  readonly sentRequestId: boolean;

  /**
   * @param route method and path of the route that serves it
   * @param parametersCount of the path of the route
   * @param newRequestId for a request without a well-formed id
   */
  constructor(
    req: HttpRequest,
    route: { readonly method: string; readonly path: string },
    parametersCount: number,
    newRequestId: () => string,
  ) {
    const headers: string[] = [];
    let headerBytes = 0;
    let hosts = 0;
    let framing = Framing.none as Framing;
    let sentId: string | null = null;
    req.forEach((name, value) => {
      headers.push(name, value);
      headerBytes += name.length + value.length + 4;
      if (name.length === 4 && name === 'host') hosts++;
      if (name.length === 12 && name === 'x-request-id') sentId ??= value;
      framing = framingWith(framing, name, value);
    });
    const parameters: string[] = [];
    for (let index = 0; index < parametersCount; index++) parameters.push(req.getParameter(index));
    // Only handlers of GET serve several methods (HEAD, and any for 405). Each call into uWebSockets.js costs 0.3 us.
    this.method = route.method === 'GET' ? req.getCaseSensitiveMethod() : route.method;
    this.path = req.getUrl();
    this.route = route.path;
    const hasQuery = this.method === 'GET' || this.method === 'HEAD' || this.route.startsWith('/in/');
    // Despite its type, getQuery returns undefined if there is no question mark.
    this.query = hasQuery ? (req.getQuery() ?? '') : '';
    this.parameters = parameters;
    this.headers = headers;
    this.headerBytes = headerBytes;
    this.hosts = hosts;
    this.framing = framing;
    this.sentRequestId = sentId !== null && isSafeId(sentId);
    this.requestId = this.sentRequestId ? sentId! : newRequestId();
  }

  /** Returns the first value of a field. @param name in lower case. */
  header(name: string): string | undefined {
    for (let i = 0; i < this.headers.length; i += 2) if (this.headers[i] === name) return this.headers[i + 1];
    return undefined;
  }

  /** Names of the cookies that begin with this text, in the order of the request: a browser sends the oldest first (RFC 6265, 5.4). */
  cookieNames(prefix: string): string[] {
    return this.#cookies(prefix).map((pair) => pair.split('=', 1)[0]!);
  }

  /** Returns the value of a cookie. Also undefined if it was sent twice, because neither value takes precedence. */
  cookie(name: string): string | undefined {
    const pairs = this.#cookies(`${name}=`);
    return pairs.length === 1 ? pairs[0]!.slice(name.length + 1) : undefined;
  }

  #cookies(prefix: string): string[] {
    return (this.header('cookie') ?? '').split(/; */).filter((pair) => pair.startsWith(prefix));
  }
}

/** Whether an X-Request-Id may be logged and returned. */
function isSafeId(id: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(id);
}
