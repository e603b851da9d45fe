/** One request and its answer. Holds a snapshot that outlives uWebSockets.js's HttpRequest, and is the only way to answer. */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { ProblemCode } from '../../model/errors.ts';
import { Stage, StageClock } from '../telemetry/stages.ts';
import { answerAndClose, answerHeadAndClose, type ConnectionEnding, writeAnswer, writeRest } from './answer.ts';
import { type BodyMemory, BodyReader } from './body.ts';
import type { Client } from './clients.ts';
import { type Problem, problem, problemDocument, problemLater } from './problem.ts';
import { openStream, type StreamAnswer } from './stream.ts';
import type { UnreadLimit } from './unread.ts';

export interface ExchangeHost {
  readonly memory: BodyMemory;
  readonly unread: UnreadLimit;
  /** CLIENT_UNREAD_SECONDS */
  readonly unreadSeconds: number;
  /** While true, every answer closes its connection. */
  readonly draining: boolean;
  /** True near CONNECTIONS_MAX: every answer closes its connection, so that idle ones leave room for others. */
  readonly isCrowded: boolean;
  /** True if the answer without a body that follows is the last of its connection. */
  endsBodiless(): boolean;
  /** Answers an exchange whose handler failed. */
  failed(exchange: Exchange, error: unknown): void;
  finished(exchange: Exchange): void;
}

/** Nothing is left to send: the client disconnected, or reads an open stream. */
export interface Unanswered {
  kind: 'gone' | 'streaming';
}

/** Smaller answers do not count as unread: CLIENT_REQUESTS_MAX and the rate limits bound them. */
const LARGE_BYTES = 16_384;
const UNREAD_RETRY_SECONDS = 5;

export class Exchange {
  readonly method: string;
  readonly path: string;
  /** Without the question mark. Empty for other methods than GET and HEAD, except on the ingest routes. */
  readonly query: string;
  readonly route: string;
  /** Path parameters, in order. */
  readonly parameters: readonly string[];
  /** Alternating field names (lower case) and values. Repeated fields are kept separate. */
  readonly headers: readonly string[];
  readonly client: Client;
  readonly requestId: string;
  readonly sentRequestId: boolean;
  readonly clock = new StageClock();
  /** Status sent; 0 until then, and 0 for good if the client disconnected first. */
  status = 0;
  aborted = false;
  /** The client has disconnected, also from an open stream, or has cancelled the request: no client waits for what the handler does. */
  isGone = false;
  /** Code of the problem document sent, if any. */
  problemCode: ProblemCode | null = null;
  /** Id of the stored event, or of the first event of a batch. */
  eventId: string | null = null;
  /** Id of the trace of which this is a span, if it is recorded. */
  traceId: string | null = null;
  /** The event of `eventId` was stored by an earlier request. */
  isDuplicate = false;
  cacheControl = 'no-store';
  /** Set on page routes: renders a problem as a page instead of a problem document. */
  showProblem: ((problem: Problem) => void) | null = null;
  /** The request has no valid credentials: large answers are limited to what the client reads. */
  isAnonymous = false;
  readonly #res: HttpResponse;
  readonly #host: ExchangeHost;
  #ended = false;
  #isStream = false;
  #ending: ConnectionEnding;
  #extraFields = '';
  #body: BodyReader | null = null;
  #onGone: (() => void) | null = null;

  constructor(
    res: HttpResponse,
    req: HttpRequest,
    host: ExchangeHost,
    snapshot: Pick<
      Exchange,
      'method' | 'route' | 'parameters' | 'headers' | 'client' | 'requestId' | 'sentRequestId'
    > & {
      chunked: boolean;
    },
  ) {
    this.#res = res;
    this.#host = host;
    this.method = snapshot.method;
    this.path = req.getUrl();
    this.route = snapshot.route;
    const hasQuery = this.method === 'GET' || this.method === 'HEAD' || this.route.startsWith('/in/');
    // Despite its type, getQuery returns undefined if there is no question mark.
    this.query = hasQuery ? (req.getQuery() ?? '') : '';
    this.parameters = snapshot.parameters;
    this.headers = snapshot.headers;
    this.client = snapshot.client;
    this.requestId = snapshot.requestId;
    this.sentRequestId = snapshot.sentRequestId;
    this.#ending = snapshot.chunked ? 'last' : 'keep';
    this.client.load.requests++;
    res.onAborted(() => this.#onAborted());
  }

  /** True while the process drains: answer soon. */
  get draining(): boolean {
    return this.#host.draining;
  }

  /** Returns the first value of a field. @param name in lower case. */
  header(name: string): string | undefined {
    for (let i = 0; i < this.headers.length; i += 2) if (this.headers[i] === name) return this.headers[i + 1];
    return undefined;
  }

  /** Names of the cookies that begin with this text, in the order of the request: a browser sends the oldest first (RFC 6265, 5.4). */
  cookieNames(prefix: string): string[] {
    const pairs = (this.header('cookie') ?? '').split(/; */).filter((pair) => pair.startsWith(prefix));
    return pairs.map((pair) => pair.split('=', 1)[0]!);
  }

  /** Returns the value of a cookie. Also undefined if it was sent twice, because neither value takes precedence. */
  cookie(name: string): string | undefined {
    const pairs = (this.header('cookie') ?? '').split(/; */).filter((pair) => pair.startsWith(`${name}=`));
    return pairs.length === 1 ? pairs[0]!.slice(name.length + 1) : undefined;
  }

  /** Sets the callback for a client that leaves before its answer, see isGone. Replaces the previous callback; null removes it. */
  whenGone(callback: (() => void) | null): void {
    this.#onGone = callback;
  }

  /** Ends the work for a client that has cancelled the request, but takes an answer. */
  cancel(): void {
    this.isGone = true;
    this.#onGone?.();
  }

  /**
   * Starts reading the body. Call it synchronously in the handler, or the first chunks are lost. The caller releases the reader.
   * @param onEnd called when the outcome is set; possibly before this returns.
   */
  readBody(capBytes: number, onEnd: () => void): BodyReader {
    const declared = this.header('content-length');
    const declaredBytes = declared === undefined ? null : Number(declared);
    const chunked = this.#ending === 'last';
    const size = { declaredBytes, capBytes, chunked };
    const onChunkedEnd = () => {
      // Stop reading after the last chunk. Trailers are ignored too.
      if (this.#body?.outcome?.kind === 'complete' && !this.#ended) this.#res.pause();
      onEnd();
    };
    this.#body = new BodyReader(this.#res, this.#host.memory, this.client.load, size, chunked ? onChunkedEnd : onEnd);
    return this.#body;
  }

  /** Adds a field to the answer. The caller ensures that the value contains no line end. */
  setHeader(name: string, value: string): void {
    this.#extraFields += `\r\n${name}: ${value}`;
  }

  /** Excludes the time since the last stage from the timings: it was an intentional wait. */
  waited(): void {
    this.clock.skip();
  }

  /** Ends a stage of the answer path. See stages.ts. */
  lap(stage: Stage): void {
    this.clock.lap(stage);
  }

  /**
   * Sends the answer. Does nothing if the client disconnected or the exchange was answered. The request stays open until the socket
   * has taken the whole answer, so a client that does not read is limited to CLIENT_REQUESTS_MAX unread answers.
   */
  answer(status: number, contentType: string, body: string | Uint8Array): void {
    if (this.aborted || this.status !== 0) return;
    if (this.isAnonymous && body.length > LARGE_BYTES && this.method !== 'HEAD') {
      if (this.#host.unread.isSuspect(this.client)) return void this.#answerReader(status, contentType, body);
      this.client.load.sentBytes += body.length;
    }
    this.status = status;
    // The handler has finished, so a later disconnect is not reported to it.
    this.#onGone = null;
    const bodiless = body.length === 0 || this.method === 'HEAD';
    if (bodiless && this.#ending === 'keep' && (this.#isStream || this.#host.endsBodiless())) this.#ending = 'last';
    if (this.#ending === 'last') setImmediate(() => this.#send(contentType, body));
    else this.#send(contentType, body);
  }

  /** Answers a client that may have left much unread, if it has read that. */
  async #answerReader(status: number, contentType: string, body: string | Uint8Array): Promise<void> {
    const isOver = await this.#host.unread.isOver(this.client);
    if (!isOver) return this.answer(status, contentType, body);
    this.#extraFields = '';
    this.showProblem = null;
    this.problem(problemLater('client_busy', UNREAD_RETRY_SECONDS));
  }

  #send(contentType: string, body: string | Uint8Array): void {
    if (this.#ended) return;
    const { status } = this;
    const fields = this.#fields(contentType);
    if (this.#ending === 'cut') {
      this.#ended = true;
      answerAndClose(this.#res, status, fields, body as string);
      this.lap(Stage.respond);
      return this.#finish();
    }
    if (this.#ending === 'last' && (body.length === 0 || this.method === 'HEAD')) {
      this.#ended = true;
      answerHeadAndClose(this.#res, status, fields, this.#isStream ? null : body);
      this.lap(Stage.respond);
      return this.#finish();
    }
    const { draining, isCrowded } = this.#host;
    const closes = this.#ending === 'last' || draining || isCrowded || (this.#body?.restIsTooLong ?? false);
    const taken = writeAnswer(this.#res, status, fields, body, this.method === 'HEAD', closes);
    this.lap(Stage.respond);
    if (taken) return this.#finish();
    if (this.isAnonymous) this.#closeUnread();
    writeRest(this.#res, body, () => this.#finishAfterWait());
  }

  /** A client without credentials has this long for its answer, however little it reads at a time. */
  #closeUnread(): void {
    const close = () => {
      if (!this.#ended) this.#res.close();
    };
    setTimeout(close, this.#host.unreadSeconds * 1000).unref();
  }

  /** The value of content-type, followed by all other fields. The field nosniff stops browsers from guessing another type. */
  #fields(contentType: string): string {
    return `${contentType}\r\nx-request-id: ${this.requestId}\r\nx-content-type-options: nosniff\r\ncache-control: ${this.cacheControl}${this.#extraFields}`;
  }

  /**
   * Starts a 200 answer of unknown length. The request stays open until the answer ends or the client disconnects (see whenGone).
   * Its duration counts as an intentional wait. Returns null if the client disconnected, the exchange was answered, or the method is
   * HEAD, which is then answered.
   */
  stream(contentType: string): StreamAnswer | null {
    if (this.aborted || this.status !== 0) return null;
    this.#isStream = true;
    if (this.method === 'HEAD') {
      this.answer(200, contentType, '');
      return null;
    }
    this.status = 200;
    const host = { isEnded: () => this.#ended, onEnd: () => this.#finishAfterWait() };
    const stream = openStream(this.#res, this.#fields(contentType), host);
    this.lap(Stage.respond);
    return stream;
  }

  json(status: number, value: unknown): void {
    this.answer(status, 'application/json', JSON.stringify(value));
  }

  /** Answers with a problem document, and Retry-After if the problem has a time. */
  problem(given: Problem): void {
    this.problemCode = given.code;
    if (this.showProblem !== null) return this.showProblem(given);
    const document = problemDocument(given, this.requestId);
    if (given.retryAfterSeconds !== undefined) this.setHeader('retry-after', String(given.retryAfterSeconds));
    if (given.code === 'unauthenticated' || given.code === 'agent_unauthenticated')
      this.setHeader('www-authenticate', given.challenge ?? 'Bearer');
    this.answer(document.status, 'application/problem+json', JSON.stringify(document));
  }

  /** Answers after an error in a later step of the handler, in the same way as after one that the handler throws. */
  fail(error: unknown): void {
    this.#host.failed(this, error);
  }

  /**
   * Refuses a request with invalid framing and closes the connection before anything after its head is parsed. Call it before the handler
   * returns. An answer to HEAD has no body to pad, so the bytes after the head may prevent it.
   */
  problemAndClose(code: ProblemCode): void {
    this.#ending = this.method === 'HEAD' ? 'last' : 'cut';
    this.problem(problem(code));
  }

  #onAborted(): void {
    if (this.#ended) return;
    if (this.status === 0 || this.#ending === 'last') this.aborted = true;
    else this.waited();
    this.#body?.abandon();
    this.cancel();
    this.#finish();
  }

  /** The time since the head was sent depended on the client or on events, so it counts as an intentional wait. */
  #finishAfterWait(): void {
    this.waited();
    this.#finish();
  }

  #finish(): void {
    this.#ended = true;
    this.client.load.requests--;
    this.#host.finished(this);
  }
}
