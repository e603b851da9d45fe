/** One request and its answer: the only way to answer. */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { ProblemCode } from '../../model/errors.ts';
import type { Settings } from '../settings/read.ts';
import { Stage, StageClock } from '../telemetry/stages.ts';
import { answerAndClose, answerHeadAndClose, type ConnectionEnding, writeAnswer, writeRest } from './answer.ts';
import { type BodyMemory, BodyReader } from './body.ts';
import type { Client, Clients } from './clients.ts';
import { Framing } from './framing.ts';
import { RequestHead } from './head.ts';
import { type Problem, problem, problemDocument, problemLater } from './problem.ts';
import { openStream, type StreamAnswer } from './stream.ts';
import type { UnreadLimit } from './unread.ts';

/** The options of a server that its exchanges use. */
export interface ExchangeOptions {
  clients: Pick<Clients, 'of'>;
  memory: BodyMemory;
  unread: UnreadLimit;
  settings: Pick<Settings, 'CLIENT_UNREAD_SECONDS'>;
}

export interface ExchangeHost {
  readonly options: ExchangeOptions;
  readonly draining: boolean;
  /** True: answers close their connections. The process drains, or is near CONNECTIONS_MAX, and idle connections would keep out others. */
  readonly closesConnections: boolean;
  /** Called for an answer without a body that would keep its connection. True: the connection ends with this answer. */
  endsBodiless(): boolean;
  /** Answers an exchange whose handler failed. */
  failed(exchange: Exchange, error: unknown): void;
  finished(exchange: Exchange): void;
  newRequestId(): string;
}

/** Nothing is left to send: the client disconnected, or reads an open stream. */
export interface Unanswered {
  kind: 'gone' | 'streaming';
}

/** Smaller answers do not count as unread: CLIENT_REQUESTS_MAX and the rate limits bound them, and the kernel takes them at once. */
const LARGE_BYTES = 16_384;
const UNREAD_RETRY_SECONDS = 5;

export class Exchange extends RequestHead {
  readonly client: Client;
  readonly clock = new StageClock();
  /** Status sent; 0 before that. It stays 0 if the client disconnected first. */
  status = 0;
  aborted = false;
  /** The client has disconnected, also from an open stream, or has cancelled the request, so the handler can end its work. */
  isGone = false;
  /** Code of the problem document sent, if any. */
  problemCode: ProblemCode | null = null;
  /** Id of the stored event, or of the first event of a batch. */
  eventId: string | null = null;
  /** Id of the trace in which this request has a span; null: no span is recorded. */
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

  /** @param route, parametersCount see RequestHead */
  constructor(
    res: HttpResponse,
    req: HttpRequest,
    host: ExchangeHost,
    route: { readonly method: string; readonly path: string },
    parametersCount: number,
  ) {
    super(req, route, parametersCount, host.newRequestId);
    this.#res = res;
    this.#host = host;
    this.client = host.options.clients.of(res, this.headers);
    this.#ending = this.framing === Framing.chunked ? 'last' : 'keep';
    this.client.load.requests++;
    res.onAborted(() => this.#onAborted());
  }

  /** True while the process drains: answer soon. */
  get draining(): boolean {
    return this.#host.draining;
  }

  /** Sets the callback for a client that leaves before its answer, see isGone. Replaces the previous callback; null removes it. */
  whenGone(callback: (() => void) | null): void {
    this.#onGone = callback;
  }

  /** Ends the work for a client that has cancelled the request and still waits for an answer. */
  cancel(): void {
    this.isGone = true;
    this.#onGone?.();
  }

  /**
   * Starts reading the body. Call it synchronously in the handler, or the first chunks are lost. The caller releases the reader.
   * @param onEnd called when the outcome is set; possibly before this returns.
   * @param cell number of the cell that stores an event with this body
   */
  readBody(capBytes: number, onEnd: () => void, cell = 0): BodyReader {
    const declared = this.header('content-length');
    const declaredBytes = declared === undefined ? null : Number(declared);
    const chunked = this.#ending === 'last';
    const facts = { declaredBytes, capBytes, chunked, cell };
    const onChunkedEnd = () => {
      // Stop reading after the last chunk. Trailers are ignored too.
      if (this.#body?.outcome?.kind === 'complete' && !this.#ended) this.#res.pause();
      onEnd();
    };
    this.#body = new BodyReader(
      this.#res,
      this.#host.options.memory,
      this.client.load,
      facts,
      chunked ? onChunkedEnd : onEnd,
    );
    return this.#body;
  }

  /** Adds a field to the answer. The caller ensures that the value contains no line end. */
  setHeader(name: string, value: string): void {
    this.#extraFields += `\r\n${name}: ${value}`;
  }

  /**
   * Sends the answer. Does nothing if the client disconnected or the exchange was answered. The request stays open until the socket
   * has taken the whole answer, so a client that does not read is limited to CLIENT_REQUESTS_MAX unread answers.
   */
  answer(status: number, contentType: string, body: string | Uint8Array): void {
    if (this.aborted || this.status !== 0) return;
    if (this.isAnonymous && body.length > LARGE_BYTES && this.method !== 'HEAD') {
      if (this.#host.options.unread.isSuspect(this.client)) return void this.#answerReader(status, contentType, body);
      this.client.load.sentBytes += body.length;
    }
    this.status = status;
    // The handler has finished, so a later disconnect is not reported to it.
    this.#onGone = null;
    const bodiless = body.length === 0 || this.method === 'HEAD';
    if (bodiless && this.#ending === 'keep' && this.#endsBodiless()) this.#ending = 'last';
    // The rest of a small body was received with the head and is parsed by the next turn. The answer can then close the connection.
    const waits = this.#bodyArrives && this.#host.closesConnections;
    if (this.#ending === 'last' || waits) setImmediate(() => this.#send(contentType, body));
    else this.#send(contentType, body);
  }

  #endsBodiless(): boolean {
    return this.#isStream || this.#closes(0) || this.#host.endsBodiless();
  }

  /**
   * Whether the answer closes its connection. While a body arrives, the connection stays open unless too much of the body is left: closing it
   * would send a reset, and the client might not see the answer. After a large answer the connection stays open too: uWebSockets.js does not
   * report when the client has read the answer, so the answer asks the client to close.
   */
  #closes(answerBytes: number): boolean {
    if (this.#bodyArrives) return this.#body!.restIsTooLong;
    return this.#host.closesConnections && answerBytes <= LARGE_BYTES;
  }

  get #bodyArrives(): boolean {
    return this.#body?.complete === false;
  }

  /** Answers a client that may have left large answers unread: 503 if the unread bytes are over the limit. */
  async #answerReader(status: number, contentType: string, body: string | Uint8Array): Promise<void> {
    const isOver = await this.#host.options.unread.isOver(this.client);
    if (!isOver) return this.answer(status, contentType, body);
    this.#extraFields = '';
    this.showProblem = null;
    this.problem(problemLater('client_busy', UNREAD_RETRY_SECONDS));
  }

  #send(contentType: string, body: string | Uint8Array): void {
    if (this.#ended) return;
    const { status } = this;
    // The field asks the client to close: this process could close only after the client has read the large answer.
    if (this.#ending === 'keep' && body.length > LARGE_BYTES && !this.#bodyArrives && this.#host.closesConnections)
      this.setHeader('connection', 'close');
    const fields = this.#fields(contentType);
    if (this.#ending === 'cut' || (this.#ending === 'last' && (body.length === 0 || this.method === 'HEAD'))) {
      this.#ended = true;
      if (this.#ending === 'cut') answerAndClose(this.#res, status, fields, body as string);
      else answerHeadAndClose(this.#res, status, fields, this.#isStream ? null : body);
      this.clock.lap(Stage.respond);
      return this.#finish();
    }
    const closes = this.#ending === 'last' || this.#closes(body.length);
    const taken = writeAnswer(this.#res, status, fields, body, this.method === 'HEAD', closes);
    this.clock.lap(Stage.respond);
    if (taken) return this.#finish();
    if (this.isAnonymous) this.#closeUnread();
    writeRest(this.#res, body, () => this.#finishAfterWait());
  }

  /** Limits how long a client without credentials may take to read its answer, even if it reads slowly all the time. */
  #closeUnread(): void {
    const close = () => {
      if (!this.#ended) this.#res.close();
    };
    setTimeout(close, this.#host.options.settings.CLIENT_UNREAD_SECONDS * 1000).unref();
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
    this.clock.lap(Stage.respond);
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

  /** Answers after an error in a later step of the handler, as if the handler had thrown the error. */
  fail(error: unknown): void {
    this.#host.failed(this, error);
  }

  /**
   * Refuses a request with invalid framing and closes the connection before anything after its head is parsed. Call it before the handler
   * returns. An answer to HEAD has no body to pad, so bytes after the head may prevent the answer.
   */
  problemAndClose(code: ProblemCode): void {
    this.#ending = this.method === 'HEAD' ? 'last' : 'cut';
    this.problem(problem(code));
  }

  #onAborted(): void {
    if (this.#ended) return;
    if (this.status === 0 || this.#ending === 'last') this.aborted = true;
    else this.clock.skip();
    this.#body?.abandon();
    this.cancel();
    this.#finish();
  }

  /** The time since the head was sent depended on the client or on events, so it counts as an intentional wait. */
  #finishAfterWait(): void {
    this.clock.skip();
    this.#finish();
  }

  #finish(): void {
    this.#ended = true;
    this.client.load.requests--;
    this.#host.finished(this);
  }
}
