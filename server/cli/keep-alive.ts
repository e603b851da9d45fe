/** Kept-alive connections to one address, by node:http or node:https. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

/** Idle connections are closed by us first: Weir drops them after ten seconds, and a reset in between looks like a fault. */
const IDLE_TIMEOUT_MS = 4_000;

interface KeepAlive {
  /** Destroying it closes every connection; requests under way fail with ECONNRESET. */
  agent: HttpAgent;
  request: typeof httpRequest;
}

/** @param connectionsMax connections open at a time; further requests wait for one */
export function keepAlive(url: URL, connectionsMax: number): KeepAlive {
  const options = { keepAlive: true, maxSockets: connectionsMax, timeout: IDLE_TIMEOUT_MS };
  return url.protocol === 'https:'
    ? { agent: new HttpsAgent(options), request: httpsRequest }
    : { agent: new HttpAgent(options), request: httpRequest };
}

/** A name with several addresses (localhost) fails with an AggregateError that carries the code of the tries. */
export function nameOf(error: NodeJS.ErrnoException): string {
  return error.code ?? error.name;
}
