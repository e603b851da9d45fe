/** Whether a host of a URL, or an address such as HOST, names this machine alone. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host);
}

/**
 * The URL at which this machine reaches a port. Wildcard addresses are reached at 127.0.0.1; `::` too, because a container without IPv6 can
 * listen on it. @param host address on which the server listens
 */
export function localUrl(host: string, port: number): string {
  const reached = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}

/** Whether no one on the way can read or change what this URL answers: https, or http on this machine. */
export function isSafeUrl({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
}

/**
 * Whether a request uses another name of this machine than its address, such as `localhost:8080` for `http://127.0.0.1:8080`. To a browser
 * these are two sites with separate cookies.
 * @param host of the request
 */
export function isOtherLoopbackName(host: string, address: string): boolean {
  if (!URL.canParse(`http://${host}`)) return false;
  const [given, own] = [new URL(`http://${host}`), new URL(address)];
  const areLoopback = isLoopback(given.hostname) && isLoopback(own.hostname);
  return areLoopback && given.hostname !== own.hostname && given.port === own.port;
}
