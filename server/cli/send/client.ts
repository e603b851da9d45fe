/** One signed POST at a time over kept-alive connections. */
import type { IncomingMessage } from 'node:http';
import { keepAlive, nameOf } from '../keep-alive.ts';
import { type Attempt, parseRetryAfter } from './pace.ts';

/** Without an answer in this time a request counts as failed with ETIMEDOUT. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Posts a body; never rejects. */
export type Post = (headers: Record<string, string>, body: Buffer) => Promise<Attempt>;

export interface Client {
  post: Post;
  /** Closes every connection; requests under way end as failed with ECONNRESET. */
  close: () => void;
}

/**
 * A client for one address.
 *
 * node:http rather than fetch: 16 requests at a time of 1 KiB on Node 20 cost 40 to 70 us of CPU each, by fetch 280 to
 * 370 us, and what the sender burns, a server on the same machine lacks.
 * @param connectionsMax connections open at a time; further requests wait for one
 */
export function openClient(url: URL, connectionsMax: number): Client {
  const { agent, request } = keepAlive(url, connectionsMax);
  const post: Post = (headers, body) =>
    new Promise((settle) => {
      const startMs = performance.now();
      const call = request(url, { method: 'POST', agent, headers, timeout: ANSWER_TIMEOUT_MS }, (response) => {
        // The body is drained, so that the connection serves the next request; a cut one has told its status all the same.
        response.resume();
        response.once('error', () => {});
        response.once('close', () => settle(answered(response, performance.now() - startMs)));
      });
      call.once('timeout', () => call.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })));
      call.once('error', (error: NodeJS.ErrnoException) => settle({ kind: 'failed', name: nameOf(error) }));
      call.end(body);
    });
  return { post, close: () => agent.destroy() };
}

function answered(response: IncomingMessage, latencyMs: number): Attempt {
  const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now());
  return { kind: 'answered', status: response.statusCode ?? 0, retryAfterMs, latencyMs };
}
