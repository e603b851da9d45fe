/** JSON over POST to the API of a Weir, over kept-alive connections. */
import type { IncomingMessage } from 'node:http';
import { keepAlive, nameOf } from '../keep-alive.ts';
import { parseRetryAfter } from '../send/pace.ts';

/** A claim bounds its bodies at 16 MiB and one more; escaped, or as base64, they are longer. */
const ANSWER_BYTES_MAX = 268_435_456;

/** The long poll, an ack, a nack, an extension, a sign-in, and one to spare. */
const CONNECTIONS_MAX = 6;

/** What became of one request. `document` is null when the answer is no JSON. */
export type Answer =
  | { kind: 'answered'; status: number; retryAfterMs: number | null; document: unknown }
  | { kind: 'failed'; name: string };

export interface Call {
  /** Below the base address, e.g. `api/v1/agent/session`. */
  path: string;
  /** Goes into Authorization, and nowhere else. */
  token: string;
  body: object;
  /** Without an answer in this time the request has failed with ETIMEDOUT. */
  timeoutMs: number;
  /** Ends the request, which has then failed. */
  signal: AbortSignal;
}

export interface ApiClient {
  /** The address that calls go to, as people are told it. */
  base: string;
  /** Never rejects. */
  post: (call: Call) => Promise<Answer>;
  /** Closes every connection; requests under way fail. */
  close: () => void;
}

/** @param url base of the API; it may have a path of its own */
export function openApiClient(url: URL): ApiClient {
  const { agent, request } = keepAlive(url, CONNECTIONS_MAX);
  const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}/`;

  const post = ({ path, token, body, timeoutMs, signal }: Call) =>
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
      const failed = (error: NodeJS.ErrnoException) => settle({ kind: 'failed', name: nameOf(error) });
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
    if (bytes > ANSWER_BYTES_MAX) throw fault('an answer that is too large');
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
