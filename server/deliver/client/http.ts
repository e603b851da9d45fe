/**
 * JSON calls to the Weir API, over keep-alive connections, with retries until the server gives a final response; and the errors of these
 * calls.
 */
import { errorName, keepAlive } from '../../base/net/keep-alive.ts';
import { CLIENT_FIELD, updateOf, userAgent } from '../../base/net/releases.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import { type Backoff, backoffMs, parseRetryAfter, pause } from '../../base/time/backoff.ts';
import type { Notify } from './options.ts';

/**
 * - `credential_invalid`: the text or the file is not an agent credential
 * - `credential_unreadable`: the credential file cannot be read, or the function that returns the credential failed `attemptsMax` times
 * - `credential_refused`: Weir answered 401: the credential was rotated or revoked, or belongs to another Weir
 * - `not_weir`: the URL answers, but not as Weir's API
 * - `unreachable`: no answer, or only server errors, in `attemptsMax` attempts
 * - `request_refused`: Weir refused the request; `problemCode` is the code of its answer
 * - `lease_lost`, `drain_ended`: reasons of `delivery.signal`
 * - `closed`: the agent was closed before the answer arrived, so the outcome is unknown
 */
export type WeirErrorCode =
  | 'credential_invalid'
  | 'credential_unreadable'
  | 'credential_refused'
  | 'not_weir'
  | 'unreachable'
  | 'request_refused'
  | 'lease_lost'
  | 'drain_ended'
  | 'closed';

interface WeirErrorDetails {
  status?: number;
  /** `code` of the problem document (RFC 9457) that Weir answered; /docs/reference#errors of the server lists these codes. */
  problemCode?: string;
}

/** Why a call of the client failed. `message` and `fix` are for people; programs use `code`. */
export class WeirError extends Error {
  override readonly name = 'WeirError';
  readonly code: WeirErrorCode;
  /** What to do about it, as one sentence. */
  readonly fix: string;
  readonly status: number | undefined;
  readonly problemCode: string | undefined;

  /** @param message never contains any part of a credential */
  constructor(code: WeirErrorCode, message: string, fix: string, { status, problemCode }: WeirErrorDetails = {}) {
    super(message);
    this.code = code;
    this.fix = fix;
    this.status = status;
    this.problemCode = problemCode;
  }
}

/** A claim is limited to 16 MiB of bodies plus one body; JSON escapes and base64 make them longer. */
const ANSWER_BYTES_MAX = 268_435_456;

/** A run uses up to four: long poll, ack, nack, extension. Sign-in is shared. */
const CONNECTIONS_MAX = 16;

/** Statuses of a server that does not know the request; with 200 the document is another one. */
const UNKNOWN_REQUEST: ReadonlySet<number> = new Set([200, 400, 404, 405, 410, 415, 422]);

/** Result of one request. `document` is null when the response is not JSON. */
export type HttpAnswer =
  | { kind: 'answered'; status: number; retryAfterMs: number | null; document: unknown }
  | { kind: 'failed'; name: string };

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface ApiCall {
  method: Method;
  /** Path relative to the base address, such as `api/v1/agent/session`. */
  path: string;
  /** Sent in the Authorization header only. */
  token: string;
  body?: object;
  /** A successful answer is bytes: `document` is a Buffer. */
  bytes?: boolean;
  /** Further header fields. They replace those of the same name. */
  headers?: Readonly<Record<string, string>>;
  /** Gets a stream of server-sent events as it comes; `document` is then null. */
  onEvents?: (chunk: Buffer) => void;
  /** A request without a response in this time fails with ETIMEDOUT. */
  timeoutMs: number;
  /** Cancels the request, which then fails. */
  signal: AbortSignal;
}

export interface ApiClient {
  /** Base address of the calls, as shown in messages. */
  base: string;
  /** Never rejects. */
  send: (call: ApiCall) => Promise<HttpAnswer>;
  /** How to install the client of the server, if the last answer came from another release that may not know the request; otherwise null. */
  update: (status: number) => string | null;
  /** Closes every connection; requests in flight fail. */
  close: () => void;
}

/**
 * Opens a client of the API. Connections are opened on demand and kept alive.
 * @param url base URL of the API; may have a path
 * @param socketPath connects to this Unix socket instead
 */
export function openApiClient(url: URL, socketPath?: string): ApiClient {
  const { agent, request } = keepAlive(url, CONNECTIONS_MAX);
  const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}/`;
  let serverClient: string | undefined;

  const send = ({ method, path, token, body, bytes = false, headers: added, onEvents, timeoutMs, signal }: ApiCall) =>
    new Promise<HttpAnswer>((settle) => {
      if (signal.aborted) return settle({ kind: 'failed', name: 'ABORT_ERR' });
      const text = body === undefined ? '' : JSON.stringify(body);
      const headers = {
        Authorization: `Bearer ${token}`,
        Accept: 'application/json',
        'User-Agent': userAgent(),
        ...added,
        ...(body !== undefined && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
      };
      const options = { method, agent, headers, timeout: timeoutMs, signal, socketPath };
      const failed = (error: NodeJS.ErrnoException) => settle({ kind: 'failed', name: errorName(error) });
      // By events: an async iterator of the response takes 0.1 ms more.
      const call = request(new URL(path, base), options, (response) => {
        serverClient = response.headers[CLIENT_FIELD] as string | undefined;
        const { statusCode: status = 0 } = response;
        const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now());
        const chunks: Buffer[] = [];
        let size = 0;
        if (response.headers['content-type'] === 'text/event-stream' && onEvents) response.on('data', onEvents);
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > ANSWER_BYTES_MAX) response.destroy(fault('a response that is too large'));
          else chunks.push(chunk);
        });
        response.on('error', failed);
        response.on('end', () => {
          const whole = Buffer.concat(chunks);
          const document = bytes && status === 200 ? whole : jsonOf(whole);
          settle({ kind: 'answered', status, retryAfterMs, document });
        });
      });
      call.once('timeout', () => call.destroy(fault('ETIMEDOUT')));
      call.on('error', failed);
      call.end(text);
    });
  const update = (status: number) => (UNKNOWN_REQUEST.has(status) ? updateOf(base, serverClient) : null);
  return { base, send, update, close: () => agent.destroy() };
}

/** Null: it is not JSON. */
function jsonOf(whole: Buffer): unknown {
  try {
    return JSON.parse(whole.toString('utf8'));
  } catch {
    return null;
  }
}

function fault(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** Delay between attempts without Retry-After. */
const backoff: Backoff = { firstMs: 200, maxMs: 10_000 };

interface Repetition {
  /** Address of the requests, for messages. */
  base: string;
  /** Maximum attempts that end in a lost connection or a 5xx, including the first. */
  attemptsMax: number;
  /** Gets one notice for each outage, which may have many attempts, and one when it ends. */
  notify?: Notify;
  wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** `stopped`: the signal ended the request; whether the server received the last attempt is unknown. */
type Reply = { kind: 'answered'; status: number; document: unknown } | { kind: 'stopped' };

/**
 * Retries until the response is neither 408, 429 nor 5xx: lost connections and server errors with back-off, or after the delay that
 * Retry-After requests. Throws WeirError `unreachable` when no attempts are left. 429 does not count as an attempt.
 */
export type Repeat = (attempt: () => Promise<HttpAnswer>, signal: AbortSignal) => Promise<Reply>;

/** Creates the function that repeats requests. It reports an outage once, at its first failed attempt, and its end once. */
export function repeater({ base, attemptsMax, notify = () => {}, wait = pause }: Repetition): Repeat {
  let isOutage = false;
  return async (attempt, signal) => {
    let attempts = 0;
    for (let waits = 0; !signal.aborted; waits++) {
      const answer = await attempt();
      if (signal.aborted && answer.kind === 'failed') break;
      if (answer.kind === 'answered' && answer.status !== 408 && answer.status !== 429 && answer.status < 500) {
        if (isOutage) notify({ kind: 'recovered', message: 'The server is available again.' });
        isOutage = false;
        return { kind: 'answered', status: answer.status, document: answer.document };
      }
      const cause = answer.kind === 'failed' ? answer.name : String(answer.status);
      if (cause !== '429') attempts += 1;
      if (attempts >= attemptsMax)
        throw new WeirError(
          'unreachable',
          `${base} did not answer: ${cause}, after ${attempts} attempts.`,
          `Check that Weir runs and that this machine reaches ${base}readyz.`,
        );
      const retryAfterMs = answer.kind === 'answered' ? answer.retryAfterMs : null;
      const afterMs = retryAfterMs ?? backoffMs(waits, backoff, Math.random());
      const message = `${base}: ${cause}: next attempt in ${(afterMs / 1000).toFixed(1)} s.`;
      if (!isOutage) notify({ kind: 'retrying', message, cause, afterMs });
      isOutage = true;
      await wait(afterMs, signal);
    }
    return { kind: 'stopped' };
  };
}

const DETAIL_CHARACTERS_MAX = 300;
const UPDATE = 'Install the client of the server.';
const GIVE_BASE_URL = "Give the base URL of Weir's API, for example http://127.0.0.1:8080.";

/** Error for a response that a retry cannot change. It includes the server's `detail` (RFC 9457). */
export function unexpected({ base, update }: ApiClient, path: string, status: number, document: unknown): WeirError {
  const change = update(status);
  if (status === 404 && change === null)
    return new WeirError('not_weir', `${base} has no ${path}; give the base URL of Weir's API.`, GIVE_BASE_URL, {
      status,
    });
  const { detail, code, errors } = (document ?? {}) as Record<string, unknown>;
  const faults = Array.isArray(errors)
    ? errors.map((fault) => `${fault?.pointer ?? fault?.parameter}: ${fault?.detail}`).join(' ')
    : detail;
  const reason = typeof faults === 'string' ? `: ${visibleLine(faults).slice(0, DETAIL_CHARACTERS_MAX)}` : '.';
  return new WeirError(
    'request_refused',
    `${base} answered ${path} with ${status}${reason}${change === null ? '' : ` ${change}`}`,
    change === null ? 'Change the request as the message says; a repeated request would be refused again.' : UPDATE,
    { status, ...(typeof code === 'string' && { problemCode: code }) },
  );
}

/** Error for a response of status 200 whose document is not the documented one. */
export function unknownDocument({ base, update }: ApiClient, path: string): WeirError {
  const change = update(200);
  const message = `${base} answered ${path} with an unknown document${change === null ? '; is it a Weir server?' : `. ${change}`}`;
  return new WeirError('not_weir', message, change === null ? GIVE_BASE_URL : UPDATE, { status: 200 });
}
