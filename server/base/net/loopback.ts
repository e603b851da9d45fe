/** Whether a host of a URL, or an address such as HOST, names this machine alone. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host);
}

/** Whether no one on the way can read or change what this URL answers: https, or http on this machine. */
export function isSafeUrl({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
}
