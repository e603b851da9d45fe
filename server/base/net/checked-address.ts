/**
 * Addresses that a request to a configured URL may connect to. The connection is made to the checked addresses, so it is safe if the name
 * resolves to another address a moment later (DNS rebinding).
 */
import { lookup } from 'node:dns/promises';
import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { PRIVATE_RANGES } from '../../model/address.ts';

/**
 * Metadata services of clouds outside the link-local range: AWS over IPv6, Alibaba, Azure. They give out credentials of the machine, so
 * they are refused even where private networks are allowed.
 */
const METADATA: ReadonlySet<string> = new Set(['fd00:ec2::254', '100.100.100.200', '168.63.129.16']);

export interface CheckedAddress {
  address: string;
  family: 4 | 6;
}

/** The IPv6 range of public hosts (RFC 4291, section 2.4). Other ranges are refused: ::/96 could lead to an IPv4 address through a tunnel. */
const PUBLIC_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3');
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** Resolves a host name to all its addresses. Rejects with the error of the system. */
export type Resolve = (name: string) => Promise<{ address: string }[]>;

const resolveByTheSystem: Resolve = (name) => lookup(name, { all: true, verbatim: true });

/** An address that must not be connected to. */
export class AddressRefused extends Error {
  readonly address: string;
  /** True: `allowPrivate` would have allowed this address. */
  readonly isPrivate: boolean;

  constructor(host: string, address: string, isPrivate: boolean) {
    super(
      host === address
        ? `${address} is not a public address`
        : `${host} resolves to ${address}, which is not a public address`,
    );
    this.address = address;
    this.isPrivate = isPrivate;
  }
}

/**
 * Resolves the host of a URL and checks each address. Rejects with AddressRefused when one address is refused, or with the error of the
 * system when the name has no address.
 * @param hostname as in URL.hostname: IPv6 in brackets.
 */
export async function checkedAddresses(
  hostname: string,
  allowPrivate: boolean,
  resolve: Resolve = resolveByTheSystem,
): Promise<CheckedAddress[]> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const found = ipaddr.isValid(host) ? [{ address: host }] : await resolve(host);
  if (found.length === 0) throw Object.assign(new Error(`${host} has no address`), { code: 'ENOTFOUND' });
  return found.map(({ address }) => {
    const parsed = embeddedIpv4(ipaddr.process(address.replace(/%.*$/, '')));
    const range = rangeOf(parsed);
    if (METADATA.has(parsed.toString())) throw new AddressRefused(host, address, false);
    // Other ranges, such as link-local (cloud metadata), are always refused.
    const isPrivate = PRIVATE_RANGES.has(range);
    if (range !== 'unicast' && !(isPrivate && allowPrivate)) throw new AddressRefused(host, address, isPrivate);
    return { address, family: ipaddr.parse(address.replace(/%.*$/, '')).kind() === 'ipv4' ? 4 : 6 };
  });
}

/** `unicast`: a public host. */
function rangeOf(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  const range = address.range();
  return range === 'unicast' && address.kind() === 'ipv6' && !address.match(PUBLIC_IPV6) ? 'reserved' : range;
}

/**
 * A NAT64 address (RFC 6052) leads to the IPv4 address in its last 32 bits. Addresses with the local prefix (RFC 8215) are refused, because
 * the place of the IPv4 address in them is unknown.
 */
function embeddedIpv4(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 {
  return address.kind() === 'ipv6' && address.match(NAT64) ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address;
}

/**
 * One request to a URL whose addresses were checked. Redirects are not followed. Resolves when the head of the response has arrived.
 * Rejects with the error of the connection, or when `signal` aborts.
 */
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
