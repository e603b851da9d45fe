/** Client addresses: parsing, the rate-limit key, and which proxies are trusted. */
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A CIDR network; a bare address is a network of one. */
export type Network = [Address, number];

/** IPv4-mapped IPv6 (`::ffff:192.0.2.1`) stands for an IPv4 address: the last 32 of its bits. */
const MAPPED_PREFIX_BITS = 96;

/** Parses `10.0.0.0/8`, `::1` and the like; null when the text is neither an address nor a network. */
export function parseNetwork(text: string): Network | null {
  const [base, bits, more] = text.split('/') as [string, string | undefined, string | undefined];
  // ipaddr.js reads 10/8 as 0.0.0.10/8, as inet_aton did; nobody who writes that means it.
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
 * Text of an address as events store it: IPv4-mapped IPv6 as IPv4, IPv6 shortened.
 * `bytes` are the 4 or 16 bytes of the socket; anything else (a Unix socket) reads as 0.0.0.0.
 */
export function addressFromBytes(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) return '0.0.0.0';
  return normalised(ipaddr.fromByteArray([...bytes]));
}

/** The same form for an address that came as text (with a port, or in brackets, as proxies write it); null when it is none. */
export function addressFromText(text: string): string | null {
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1');
  // A zone (fe80::1%eth0) means something on one machine only.
  const address = bare.includes(':') ? bare.replace(/%[0-9a-z]+$/i, '') : bare;
  return isWhole(address) ? normalised(ipaddr.parse(address)) : null;
}

/** True for IPv6 and for IPv4 of four decimal parts; the short, octal and hexadecimal forms of inet_aton are none. */
function isWhole(text: string): boolean {
  return text.includes(':') ? ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text);
}

/** Key under which a client is counted: IPv4 whole, IPv6 by its /64, since one client commands a whole /64. */
export function rateLimitKey(address: string): string {
  if (!address.includes(':')) return address;
  const parts = (ipaddr.parse(address) as ipaddr.IPv6).parts.slice(0, 4);
  return `${parts.map((part) => part.toString(16)).join(':')}::/64`;
}

/** Bytes of Postgres's binary inet: family, prefix bits, is_cidr, length, address. */
export function inetBytes(address: string): Uint8Array {
  const bytes = ipaddr.parse(address).toByteArray();
  return Uint8Array.from([bytes.length === 4 ? 2 : 3, bytes.length * 8, 0, bytes.length, ...bytes]);
}

/** True when one of the networks holds the address. */
export function isWithin(address: string, networks: readonly Network[]): boolean {
  if (networks.length === 0) return false;
  const parsed = ipaddr.process(address);
  return networks.some(
    ([base, bits]) => base.kind() === parsed.kind() && parsed.match([base, bits] as [ipaddr.IPv4, number]),
  );
}

/**
 * The client behind trusted proxies: walks the hops from the right, and the first one that is not trusted is the client.
 * A hop that cannot be read ends the walk at the last one that could.
 */
export function clientBehindProxies(peer: string, hops: readonly string[], trusted: readonly Network[]): string {
  let client = peer;
  for (let i = hops.length - 1; i >= 0 && isWithin(client, trusted); i--) {
    const hop = addressFromText(hops[i]!.trim());
    if (hop === null) break;
    client = hop;
  }
  return client;
}

/** The `for=` hops of a Forwarded header (RFC 7239), left to right; obfuscated ones come as they are. */
export function forwardedHops(header: string): string[] {
  return [...header.matchAll(/(?:^|[;,])\s*for=(?:"([^"]*)"|([^;,\s]*))/gi)].map((match) => match[1] ?? match[2] ?? '');
}

function normalised(address: Address): string {
  return address.kind() === 'ipv6' && (address as ipaddr.IPv6).isIPv4MappedAddress()
    ? (address as ipaddr.IPv6).toIPv4Address().toString()
    : address.toString();
}
