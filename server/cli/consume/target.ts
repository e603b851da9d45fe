/**
 * Requests to the target of `--forward`: the stored headers, the exact body and a new signature, over keep-alive connections. Redirects
 * are not followed.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { errorName, keepAlive } from '../../base/net/keep-alive.ts';
import { parseRetryAfter } from '../../base/time/backoff.ts';
import type { Delivery } from '../../deliver/client/index.ts';
import { signRequest } from '../../model/signatures/sign.ts';
import { headerOf } from '../../model/signatures/sources.ts';
import type { Signing } from './signing.ts';

/** The rest of a longer response is not read: only the status matters. */
const RESPONSE_BYTES_MAX = 65_536;
/** Name resolution, TCP and TLS. */
const CONNECT_TIMEOUT_MS = 5_000;

/** `failed`: no response; the name is a system error code, such as ECONNREFUSED, or `stopped` when the signal aborted the request. */
export type Forwarded =
  | { kind: 'answered'; status: number; location: string | null; retryAfterMs: number | null }
  | { kind: 'failed'; name: string };

export interface HttpTarget {
  /** Address for schemes that sign it: without the user and password of the URL, which are sent in the Authorization header. */
  url: URL;
  /** Address for messages, which Weir stores as reasons. It also lacks the query, which may hold a token. */
  name: string;
  /** Never rejects. The signal cancels the request. */
  send: (request: ForwardRequest, signal: AbortSignal) => Promise<Forwarded>;
  /** Whether the target accepts a connection. */
  probe: () => Promise<boolean>;
  /** Closes every connection; requests in flight fail. */
  close: () => void;
}

interface TargetOptions {
  connectionsMax: number;
  /** Time for a request with its response. */
  timeoutMs: number;
  connectTimeoutMs?: number;
}

/** Opens no connection before the first request. Connections are kept until `close`. */
export function openTarget(
  url: URL,
  { connectionsMax, timeoutMs, connectTimeoutMs = CONNECT_TIMEOUT_MS }: TargetOptions,
): HttpTarget {
  const { agent, request } = keepAlive(url, connectionsMax);

  const attempt = ({ headers, body }: ForwardRequest, signal: AbortSignal) =>
    new Promise<Forwarded & { stale?: boolean }>((settle) => {
      let call: ClientRequest;
      try {
        call = request(url, { method: FORWARD_METHOD, agent, headers, signal });
      } catch (error) {
        return settle({ kind: 'failed', name: errorName(error as NodeJS.ErrnoException) });
      }
      let response: IncomingMessage | undefined;
      const timers = [setTimeout(() => (response ?? call).destroy(fault('ETIMEDOUT')), timeoutMs)];
      const finish = (result: Forwarded & { stale?: boolean }) => {
        for (const timer of timers) clearTimeout(timer);
        settle(result);
      };
      call.once('socket', (socket) => {
        if (!socket.connecting) return;
        const timer = setTimeout(() => call.destroy(fault('ETIMEDOUT')), connectTimeoutMs);
        timers.push(timer);
        socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => clearTimeout(timer));
      });
      call.on('error', (error: NodeJS.ErrnoException) => {
        if (response !== undefined) return;
        const name = signal.aborted ? 'stopped' : errorName(error);
        finish({ kind: 'failed', name, stale: call.reusedSocket && /^(?:ECONNRESET|EPIPE)$/.test(name) });
      });
      call.once('response', (received) => {
        response = received;
        let bytes = 0;
        received.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > RESPONSE_BYTES_MAX) received.destroy();
        });
        // The status is known: a response that is cut off is as good as a complete one.
        received.on('error', () => {});
        received.once('close', () => finish(answered(received)));
      });
      call.end(body);
    });

  return {
    url: withoutUser(url),
    name: targetName(url),
    send: async (order, signal) => {
      const result = await attempt(order, signal);
      // The target closed an idle connection when it was used again. The second attempt opens a new connection.
      const { stale, ...last } = result.kind === 'failed' && result.stale ? await attempt(order, signal) : result;
      return last;
    },
    probe: () => accepts(url, connectTimeoutMs),
    close: () => agent.destroy(),
  };
}

/** The address of a target for messages. */
export function targetName({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}

function withoutUser(url: URL): URL {
  return Object.assign(new URL(url), { username: '', password: '' });
}

function answered({ statusCode = 0, headers }: IncomingMessage): Forwarded {
  return {
    kind: 'answered',
    status: statusCode,
    location: headers.location ?? null,
    retryAfterMs: parseRetryAfter(headers['retry-after'], Date.now()),
  };
}

function accepts(url: URL, timeoutMs: number): Promise<boolean> {
  return new Promise((settle) => {
    const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
    const socket: Socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ''), port, timeout: timeoutMs });
    const end = (isAccepted: boolean) => () => {
      socket.destroy();
      settle(isAccepted);
    };
    socket.once('connect', end(true)).once('timeout', end(false)).on('error', end(false));
  });
}

function fault(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

export type ForwardedDelivery = Pick<Delivery, 'id' | 'attempt'> & {
  readonly event: Omit<Delivery['event'], 'received_at' | 'text' | 'json'>;
};

export interface ForwardRequest {
  /** Names in lower case, values as node:http takes them. */
  headers: Record<string, string>;
  body: Buffer;
}

/** Weir stores requests of this method only, so it is the method of every event. */
export const FORWARD_METHOD = 'POST';

/** Fields of one connection (RFC 9110, 7.6.1), and those that describe the message to the first receiver only. */
const leftOut = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade', 'http2-settings', 'host', 'content-length', 'expect'],
]);

/**
 * Builds the request. `weir-delivery-id` is the same for each attempt, so that the target can skip a delivery that it has handled.
 * Throws CannotSign.
 * @param url address of the target, for schemes that sign it
 */
export function forwardRequest(
  { id, attempt, event }: ForwardedDelivery,
  signing: Signing,
  url: URL,
  timeMs: number,
): ForwardRequest {
  const headers: Record<string, string> = {};
  const named = (event.headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  for (const [name, value] of Object.entries(event.headers))
    if (!leftOut.has(name) && !named.includes(name) && !name.startsWith('weir-')) headers[name] = latin1(value);
  if (event.content_type !== null) headers['content-type'] ??= latin1(event.content_type);
  if (signing !== null) {
    const { definition, key } = signing;
    // The sender's id, if it was stored: the target may know the event by it.
    const idHeader = headerOf(definition.id);
    const signed = signRequest(definition, key, {
      body: event.body,
      method: FORWARD_METHOD,
      url: url.href,
      id: (idHeader !== null && headers[idHeader]) || event.id,
      timeMs,
      exact: true,
    });
    Object.assign(headers, signed.headers);
  }
  headers['content-length'] = String(event.body.length);
  headers['weir-delivery-id'] = id;
  headers['weir-event-id'] = event.id;
  headers['weir-attempt'] = String(attempt);
  return { headers, body: event.body };
}

/** Field values are bytes. Text beyond Latin-1, which node:http refuses, is sent as UTF-8. */
function latin1(value: string): string {
  return /^[\0-\xff]*$/.test(value) ? value : Buffer.from(value, 'utf8').toString('latin1');
}
