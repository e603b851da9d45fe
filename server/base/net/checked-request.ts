/** One request to a URL whose addresses were checked (checked-address.ts). Redirects are not followed. */
import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { LookupFunction } from 'node:net';
import type { CheckedAddress } from './checked-address.ts';

/** Resolves as soon as the head of the response is there. Rejects with the error of the connection, or when `signal` aborts. */
export function requestChecked(
  url: URL,
  addresses: readonly CheckedAddress[],
  { body, ...options }: Pick<RequestOptions, 'method' | 'headers'> & { body?: Uint8Array; signal: AbortSignal },
): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  const lookup: LookupFunction = (_name, { all }, callback) =>
    all ? callback(null, [...addresses]) : callback(null, addresses[0]!.address, addresses[0]!.family);
  return new Promise((resolve, reject) => {
    // Use a new connection: an existing one may lead to an address that was checked under other settings.
    const call = request(url, { ...options, agent: false, lookup }, resolve);
    call.once('error', reject);
    call.end(body);
  });
}
