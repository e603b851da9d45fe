/** Keep-alive connections to one address, through node:http or node:https. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

/** The client closes idle connections first. Weir closes them after 8 to 12 s, and a reset on reuse would look like a fault. */
const IDLE_TIMEOUT_MS = 4_000;

interface KeepAlive {
  /** Destroying the agent closes every connection; requests in flight fail with ECONNRESET. */
  agent: HttpAgent;
  request: typeof httpRequest;
}

/** Creates an agent for a URL, and selects the request function of its protocol. @param connectionsMax open connections; more requests wait */
export function keepAlive(url: URL, connectionsMax: number): KeepAlive {
  const options = { keepAlive: true, maxSockets: connectionsMax, timeout: IDLE_TIMEOUT_MS };
  return url.protocol === 'https:'
    ? { agent: new HttpsAgent(options), request: httpsRequest }
    : { agent: new HttpAgent(options), request: httpRequest };
}

/**
 * Name of a connection error. A host name with several addresses (localhost) fails with an AggregateError, which has the
 * code of the attempts.
 */
export function errorName(error: NodeJS.ErrnoException): string {
  return error.code ?? error.name;
}
