/** One signed POST at a time over kept-alive connections. */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { type Attempt, parseRetryAfter } from './send-pace.ts';

/** Without an answer in this time a request counts as failed with ETIMEDOUT. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Idle connections are closed by us first: Weir drops them after ten seconds, and a reset in between looks like a fault. */
const IDLE_TIMEOUT_MS = 4_000;

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
  const secure = url.protocol === 'https:';
  const options = { keepAlive: true, maxSockets: connectionsMax, timeout: IDLE_TIMEOUT_MS };
  const agent = secure ? new HttpsAgent(options) : new HttpAgent(options);
  const request = secure ? httpsRequest : httpRequest;

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

/** A name with several addresses (localhost) fails with an AggregateError that carries the code of the tries. */
function nameOf(error: NodeJS.ErrnoException): string {
  return error.code ?? error.name;
}
