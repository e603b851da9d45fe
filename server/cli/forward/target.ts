/** Requests to the target of `--forward`, over keep-alive connections. Redirects are not followed. */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { errorName, keepAlive } from '../../base/net/keep-alive.ts';
import { parseRetryAfter } from '../../base/time/backoff.ts';
import { FORWARD_METHOD, type ForwardRequest } from './request.ts';

/** The rest of a longer response is not read: only the status matters. */
const RESPONSE_BYTES_MAX = 65_536;
/** Name resolution, TCP and TLS. */
const CONNECT_TIMEOUT_MS = 5_000;

/** `failed`: no response; the name is a system error code, such as ECONNREFUSED. */
export type Forwarded =
  | { kind: 'answered'; status: number; location: string | null; retryAfterMs: number | null }
  | { kind: 'failed'; name: string };

export interface Target {
  /** Address for schemes that sign it: without the user and password of the URL, which are sent in the Authorization header. */
  url: URL;
  /** Address for messages, which Weir stores as reasons: without query as well, since it may hold a token. */
  name: string;
  /** Never rejects. The signal cancels the request. */
  send: (request: ForwardRequest, signal: AbortSignal) => Promise<Forwarded>;
  /** Whether the target accepts a connection. */
  probe: () => Promise<boolean>;
  /** Closes every connection; requests in flight fail. */
  close: () => void;
}

interface TargetOptions {
  /** Maximum number of open connections. */
  connectionsMax: number;
  /** Time for a request with its response. */
  timeoutMs: number;
  connectTimeoutMs?: number;
}

/** Opens no connection before the first request. Connections are kept until `close`. */
export function openTarget(
  url: URL,
  { connectionsMax, timeoutMs, connectTimeoutMs = CONNECT_TIMEOUT_MS }: TargetOptions,
): Target {
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
      // The target closed an idle connection while it was used again. A new connection answers whether the target is there.
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
