/** Client for JSON over POST to the Weir API, over keep-alive connections. */
import type { IncomingMessage } from 'node:http';
import { errorName, keepAlive } from '../keep-alive.ts';
import { parseRetryAfter } from '../send/pace.ts';

/** A claim is limited to 16 MiB of bodies plus one body; JSON escapes and base64 make them longer. */
const ANSWER_BYTES_MAX = 268_435_456;

/** Long poll, ack, nack, extension, sign-in, and one spare. */
const CONNECTIONS_MAX = 6;

/** Result of one request. `document` is null when the response is not JSON. */
export type Answer =
  | { kind: 'answered'; status: number; retryAfterMs: number | null; document: unknown }
  | { kind: 'failed'; name: string };

export interface ApiCall {
  /** Path relative to the base address, such as `api/v1/agent/session`. */
  path: string;
  /** Sent in the Authorization header only. */
  token: string;
  body: object;
  /** A request without a response in this time fails with ETIMEDOUT. */
  timeoutMs: number;
  /** Cancels the request, which then fails. */
  signal: AbortSignal;
}

export interface ApiClient {
  /** Base address of the calls, as shown in messages. */
  base: string;
  /** Never rejects. */
  post: (call: ApiCall) => Promise<Answer>;
  /** Closes every connection; requests in flight fail. */
  close: () => void;
}

/** @param url base URL of the API; may have a path */
export function openApiClient(url: URL): ApiClient {
  const { agent, request } = keepAlive(url, CONNECTIONS_MAX);
  const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}/`;

  const post = ({ path, token, body, timeoutMs, signal }: ApiCall) =>
    new Promise<Answer>((settle) => {
      if (signal.aborted) return settle({ kind: 'failed', name: 'ABORT_ERR' });
      const text = JSON.stringify(body);
      const headers = {
        Authorization: `Bearer ${token}`,
        Accept: 'application/json',
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(text),
      };
      const options = { method: 'POST', agent, headers, timeout: timeoutMs, signal };
      const failed = (error: NodeJS.ErrnoException) => settle({ kind: 'failed', name: errorName(error) });
      const call = request(new URL(path, base), options, (response) => {
        read(response).then((document) => settle(answered(response, document)), failed);
      });
      call.once('timeout', () => call.destroy(fault('ETIMEDOUT')));
      call.on('error', failed);
      call.end(text);
    });
  return { base, post, close: () => agent.destroy() };
}

async function read(response: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw fault('a response that is too large');
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return null;
  }
}

function answered(response: IncomingMessage, document: unknown): Answer {
  const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now());
  return { kind: 'answered', status: response.statusCode ?? 0, retryAfterMs, document };
}

function fault(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}
