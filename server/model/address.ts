/** Client addresses: parsing, rate-limit keys and trusted proxies. */
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A CIDR network. A bare address is a network of one address. */
export type Network = [Address, number];

/** The last 32 bits of an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) are an IPv4 address. */
const MAPPED_PREFIX_BITS = 96;

/** Parses an address or a network, e.g. `::1` or `10.0.0.0/8`. Returns null if the text is neither. */
export function parseNetwork(text: string): Network | null {
  const [base, bits, more] = text.split('/') as [string, string | undefined, string | undefined];
  // Reject 10/8: ipaddr.js reads it as 0.0.0.10/8, like inet_aton, which is never intended.
  if (more !== undefined || !isWhole(base) || !(bits === undefined || /^\d{1,3}$/.test(bits))) return null;
  const address = ipaddr.parse(base);
  const length = address.kind() === 'ipv4' ? 32 : 128;
  const prefix = bits === undefined ? length : Number(bits);
  if (prefix > length) return null;
  if (address.kind() === 'ipv6' && (address as ipaddr.IPv6).isIPv4MappedAddress() && prefix >= MAPPED_PREFIX_BITS)
    return [(address as ipaddr.IPv6).toIPv4Address(), prefix - MAPPED_PREFIX_BITS];
  return [address, prefix];
}

/**
 * Formats an address as events store it: IPv4-mapped IPv6 as IPv4, IPv6 shortened.
 * @param bytes the socket's 4 or 16 bytes. Any other length (a Unix socket) gives 0.0.0.0.
 */
export function addressFromBytes(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) return '0.0.0.0';
  return normalised(ipaddr.fromByteArray([...bytes]));
}

/** Normalizes an address given as text, with a port or brackets as proxies write it. Returns null if it is not an address. */
export function addressFromText(text: string): string | null {
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1');
  // Drop the zone (fe80::1%eth0): it has a meaning on one machine only.
  const address = bare.includes(':') ? bare.replace(/%[0-9a-z]+$/i, '') : bare;
  return isWhole(address) ? normalised(ipaddr.parse(address)) : null;
}

/** True for IPv6 and four-part decimal IPv4. False for the short, octal and hexadecimal forms of inet_aton. */
function isWhole(text: string): boolean {
  return text.includes(':') ? ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text);
}

/** Returns the rate-limit key of an address: the full IPv4 address, or the IPv6 /64, because one client controls a whole /64. */
export function rateLimitKey(address: string): string {
  if (!address.includes(':')) return address;
  const parts = (ipaddr.parse(address) as ipaddr.IPv6).parts.slice(0, 4);
  return `${parts.map((part) => part.toString(16)).join(':')}::/64`;
}

/** Encodes an address in Postgres's binary inet format: family, prefix bits, is_cidr, length, address. */
export function inetBytes(address: string): Uint8Array {
  const bytes = ipaddr.parse(address).toByteArray();
  return Uint8Array.from([bytes.length === 4 ? 2 : 3, bytes.length * 8, 0, bytes.length, ...bytes]);
}

/** True if one of the networks contains the address. */
export function isWithin(address: string, networks: readonly Network[]): boolean {
  if (networks.length === 0) return false;
  const parsed = ipaddr.process(address);
  return networks.some(
    ([base, bits]) => base.kind() === parsed.kind() && parsed.match([base, bits] as [ipaddr.IPv4, number]),
  );
}

/** Ranges of ipaddr.js that are reachable only within a machine or a network. */
export const PRIVATE_RANGES: ReadonlySet<string> = new Set(['private', 'loopback', 'uniqueLocal', 'carrierGradeNat']);

/** True for an address of this machine or of a private network. */
export function isPrivate(address: string): boolean {
  return PRIVATE_RANGES.has(ipaddr.process(address).range());
}

/** Says, for the person who gives this URL to a sender on the internet, why the sender cannot use it; null: it looks usable. */
export function whyUnreachable(url: string): string | null {
  const { protocol, hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const isOwn = host === 'localhost' || (isWhole(host) && ipaddr.process(host).range() === 'loopback');
  if (isOwn) return `A sender on another machine cannot reach ${host}`;
  if (isWhole(host) ? isPrivate(host) : !host.includes('.')) return `A sender on the internet cannot reach ${host}`;
  return protocol === 'https:' ? null : 'Over http, anyone on the way can read the events, and some senders refuse it';
}

/**
 * Returns the `for=` hops of a Forwarded header (RFC 7239), left to right. Obfuscated identifiers are returned unchanged. Reads from the right,
 * where the proxy has appended its own hop: a quote that the client sent further left cannot change how that hop is read.
 */
export function forwardedHops(header: string): string[] {
  const hops: string[] = [];
  let end = header.length;
  let isQuoted = false;
  for (let i = end - 1; i >= -1; i--) {
    if (header[i] === '"' && !isEscaped(header, i)) isQuoted = !isQuoted;
    if (i >= 0 && (isQuoted || (header[i] !== ',' && header[i] !== ';'))) continue;
    const hop = /^\s*for=(?:"([^"]*)"|(\S*))/i.exec(header.slice(i + 1, end));
    if (hop !== null) hops.push(hop[1] ?? hop[2]!);
    end = i;
  }
  return hops.reverse();
}

/** Whether an odd number of backslashes is before the character. */
function isEscaped(text: string, at: number): boolean {
  let from = at;
  while (text[from - 1] === '\\') from--;
  return (at - from) % 2 === 1;
}

function normalised(address: Address): string {
  return address.kind() === 'ipv6' && (address as ipaddr.IPv6).isIPv4MappedAddress()
    ? (address as ipaddr.IPv6).toIPv4Address().toString()
    : address.toString();
}
