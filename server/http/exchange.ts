/** One request and its answer: a snapshot that outlives uWebSockets.js's HttpRequest, and the only way to answer. */

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { STATUS_CODES } from 'node:http';
import { type ProblemCode, problems } from '../errors.ts';
import { Stage, StageClock } from '../telemetry/stages.ts';
import { type BodyMemory, BodyReader } from './body.ts';
import type { Client } from './clients.ts';
import { answerAndClose } from './last-answer.ts';

/** After an early answer so much of the body is still read and dropped; if more is to come, the connection is closed. */
const DISCARD_BYTES_MAX = 1_048_576;

const statusLines = Object.fromEntries(Object.entries(STATUS_CODES).map(([code, text]) => [code, `${code} ${text}`]));

/** Keeps a browser from reading JSON as anything else. */
const securityFields = '\r\nx-content-type-options: nosniff';
/** Statuses whose answers have no body, and no length either. */
const bodiless = new Set([204, 304]);

/** What an exchange needs of the server it belongs to. */
export interface ExchangeHost {
  readonly memory: BodyMemory;
  /** While true, every answer closes its connection. */
  readonly draining: boolean;
  finished(exchange: Exchange): void;
}

/**
 * What becomes of the connection with the answer. `keep`: the next request, unless the process drains. `last`: it closes; the answer
 * waits until all bytes that were received with the request are parsed, and a request among them closes it without an answer.
 * `cut`: it closes before anything behind the head is parsed.
 */
type Ending = 'keep' | 'last' | 'cut';

/** An answer that goes on, e.g. server-sent events. After its end nothing of it does anything. */
export interface StreamAnswer {
  /** False: the client is gone, or has not read what came before: the rest is kept for it in memory. */
  write(text: string): boolean;
  end(): void;
  /** Ends it without waiting for a client that does not read. */
  cut(): void;
}

/** RFC 9457, with extension members. */
export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  request_id: string;
}

export class Exchange {
  readonly method: string;
  readonly path: string;
  /** Without the question mark; read for GET and HEAD alone. */
  readonly query: string;
  readonly route: string;
  /** Path parameters, in order. */
  readonly parameters: readonly string[];
  /** Field names in lower case and their values, in turn; repeated fields stand as often as they were sent. */
  readonly headers: readonly string[];
  readonly client: Client;
  readonly requestId: string;
  /** The request id is the client's own. */
  readonly sentRequestId: boolean;
  readonly clock = new StageClock();
  /** Status sent; 0 before that, and for ever when the client left first. */
  status = 0;
  aborted = false;
  /** Of the problem document that it was answered with. */
  problemCode: ProblemCode | null = null;
  /** Of the event that it was stored as, or the first one of a batch. */
  eventId: string | null = null;
  /** RFC 9111; by default nobody keeps an answer. */
  cacheControl = 'no-store';
  /** Set where a person looks at the answer: shows a problem in place of the document. */
  showProblem: ((problem: ProblemDocument) => void) | null = null;
  readonly #res: HttpResponse;
  readonly #host: ExchangeHost;
  #ended = false;
  #ending: Ending;
  #extraFields = '';
  #body: BodyReader | null = null;
  #onGone: (() => void) | null = null;

  constructor(
    res: HttpResponse,
    req: HttpRequest,
    host: ExchangeHost,
    snapshot: {
      route: string;
      parameters: string[];
      headers: string[];
      client: Client;
      requestId: string;
      sentRequestId: boolean;
      chunked: boolean;
    },
  ) {
    this.#res = res;
    this.#host = host;
    this.method = req.getCaseSensitiveMethod();
    this.path = req.getUrl();
    // Without a question mark it is undefined, whatever the types say.
    this.query = this.method === 'GET' || this.method === 'HEAD' ? (req.getQuery() ?? '') : '';
    this.route = snapshot.route;
    this.parameters = snapshot.parameters;
    this.headers = snapshot.headers;
    this.client = snapshot.client;
    this.requestId = snapshot.requestId;
    this.sentRequestId = snapshot.sentRequestId;
    this.#ending = snapshot.chunked ? 'last' : 'keep';
    this.client.load.requests++;
    res.onAborted(() => this.#onAborted());
  }

  /** The process is about to end: answer soon. */
  get draining(): boolean {
    return this.#host.draining;
  }

  /** First value of a field, by its name in lower case. */
  header(name: string): string | undefined {
    for (let i = 0; i < this.headers.length; i += 2) if (this.headers[i] === name) return this.headers[i + 1];
    return undefined;
  }

  /** Value of a cookie; undefined too when it was sent twice: nobody can say which counts. */
  cookie(name: string): string | undefined {
    const pairs = (this.header('cookie') ?? '').split(/; */).filter((pair) => pair.startsWith(`${name}=`));
    return pairs.length === 1 ? pairs[0]!.slice(name.length + 1) : undefined;
  }

  /** Calls back when the client leaves before its answer; one callback at a time. */
  whenGone(callback: (() => void) | null): void {
    this.#onGone = callback;
  }

  /** Starts to read the body; call it before the route handler gives up its turn, or the first chunks are lost. Release it. */
  readBody(capBytes: number): BodyReader {
    const declared = this.header('content-length');
    const declaredBytes = declared === undefined ? null : Number(declared);
    const chunked = this.#ending === 'last';
    const body = new BodyReader(this.#res, this.#host.memory, this.client.load, { declaredBytes, capBytes, chunked });
    this.#body = body;
    // Nothing behind the last chunk is read any more, trailers among them.
    if (chunked)
      void body.outcome.then(({ kind }) => {
        if (kind === 'complete' && !this.#ended) this.#res.pause();
      });
    return body;
  }

  /** Adds a field to the answer; the value is ours and holds no line end. */
  setHeader(name: string, value: string): void {
    this.#extraFields += `\r\n${name}: ${value}`;
  }

  /** Leaves out the time since the last stage: it was spent waiting on purpose. */
  waited(): void {
    this.clock.skip();
  }

  /** Ends a stage of the answer path; see stages.ts. */
  lap(stage: Stage): void {
    this.clock.lap(stage);
  }

  /**
   * Sends the answer, once; nothing happens when the client is gone. The request is under way until the socket has taken all of
   * it: a client that does not read its answers keeps to CLIENT_REQUESTS_MAX of them.
   */
  answer(status: number, contentType: string, body: string | Uint8Array): void {
    if (this.aborted || this.status !== 0) return;
    this.status = status;
    // The handler has done its work: from now on it does not matter to it whether the client leaves.
    this.#onGone = null;
    if (this.#ending === 'last') setImmediate(() => this.#send(contentType, body));
    else this.#send(contentType, body);
  }

  #send(contentType: string, body: string | Uint8Array): void {
    if (this.#ended) return;
    const { status } = this;
    const res = this.#res;
    // All fields in one call: each one into uWebSockets.js costs 0.3 us, and an ingest answer has six fields.
    const fields = this.#fields(contentType);
    if (this.#ending === 'cut') {
      this.#ended = true;
      answerAndClose(res, statusLines[status]!, fields, body as string);
      this.lap(Stage.respond);
      return this.#finish();
    }
    const close = this.#ending === 'last' || this.#host.draining || this.#restIsTooLong();
    const bodyBytes = Buffer.byteLength(body);
    let taken = true;
    res.cork(() => {
      res.writeStatus(statusLines[status]!);
      res.writeHeader('content-type', fields);
      if (bodiless.has(status)) this.#endHead(null, close);
      else if (this.method === 'HEAD') this.#endHead(bodyBytes, close);
      // It closes the connection when all is sent, and 10 s after the client has stopped to read.
      else if (close) res.end(body, true);
      // Costs what end does (9 us with the fields), which would keep for the client whatever it does not read.
      else taken = res.tryEnd(body, bodyBytes)[0];
    });
    this.lap(Stage.respond);
    if (taken) this.#finish();
    else this.#sendRest(body);
  }

  /** Sends what the socket did not take, as the client reads. uWebSockets.js cuts a client that has not read for 10 s. */
  #sendRest(body: string | Uint8Array): void {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    this.#res.onWritable((offset) => {
      const [taken] = this.#res.tryEnd(bytes.subarray(offset), bytes.length);
      if (!taken) return false;
      this.waited();
      this.#finish();
      return true;
    });
  }

  /** The value of content-type, and all fields after it. */
  #fields(contentType: string): string {
    return `${contentType}\r\nx-request-id: ${this.requestId}${securityFields}\r\ncache-control: ${this.cacheControl}${this.#extraFields}`;
  }

  /**
   * Begins an answer of unknown length, 200. It counts as under way until it is ended or the client leaves (see whenGone), and
   * its time is spent waiting on purpose. Null: there is nobody to write to, since the client has left or asked by HEAD, and then
   * it is answered.
   */
  stream(contentType: string): StreamAnswer | null {
    if (this.aborted || this.status !== 0) return null;
    if (this.method === 'HEAD') {
      this.answer(200, contentType, '');
      return null;
    }
    this.status = 200;
    const res = this.#res;
    res.cork(() => {
      res.writeStatus(statusLines[200]!);
      res.writeHeader('content-type', this.#fields(contentType));
    });
    this.lap(Stage.respond);
    return {
      write: (text) => {
        let flows = false;
        if (!this.#ended)
          res.cork(() => {
            flows = res.write(text);
          });
        return flows;
      },
      end: () => {
        if (this.#ended) return;
        this.waited();
        res.cork(() => res.end('', true));
        this.#finish();
      },
      cut: () => {
        if (!this.#ended) res.close();
      },
    };
  }

  /**
   * Given a length, even undefined, endWithoutBody expects a body to follow, and the connection is lost for the next request.
   * @param bodyBytes null: no length is sent.
   */
  #endHead(bodyBytes: number | null, close: boolean): void {
    if (close) this.#res.endWithoutBody(bodyBytes ?? 0, true);
    else if (bodyBytes === null) this.#res.endWithoutBody();
    else this.#res.writeHeader('content-length', String(bodyBytes)).endWithoutBody();
  }

  json(status: number, value: unknown): void {
    this.answer(status, 'application/json', JSON.stringify(value));
  }

  /** Answers with RFC 9457 problem details; `detail` replaces the table's sentence, `members` are extension members. */
  problem(code: ProblemCode, detail?: string, members: Record<string, unknown> = {}): void {
    const { status, title, detail: usual } = problems[code];
    this.problemCode = code;
    const document: ProblemDocument = {
      type: 'about:blank',
      title,
      status,
      detail: detail ?? usual,
      code,
      request_id: this.requestId,
      ...members,
    };
    if (this.showProblem === null) this.answer(status, 'application/problem+json', JSON.stringify(document));
    else this.showProblem(document);
  }

  /**
   * Refuses a request whose end is uncertain, and closes the connection before anything behind its head is parsed. For a handler
   * that has not returned. An answer to HEAD, which has no body to pad, may be lost to what follows it.
   */
  problemAndClose(code: ProblemCode): void {
    this.#ending = this.method === 'HEAD' ? 'last' : 'cut';
    this.problem(code);
  }

  /** The same with Retry-After, for 429 and 503. */
  problemLater(code: ProblemCode, retryAfterSeconds: number): void {
    this.setHeader('retry-after', String(retryAfterSeconds));
    this.problem(code);
  }

  #restIsTooLong(): boolean {
    if (this.#body === null || this.#body.complete) return false;
    return Number(this.header('content-length') ?? 0) - this.#body.receivedBytes > DISCARD_BYTES_MAX;
  }

  #onAborted(): void {
    if (this.#ended) return;
    if (this.status === 0 || this.#ending === 'last') this.aborted = true;
    else this.waited();
    this.#body?.abandon();
    this.#onGone?.();
    this.#finish();
  }

  #finish(): void {
    this.#ended = true;
    this.client.load.requests--;
    this.#host.finished(this);
  }
}
