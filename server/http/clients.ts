/** Who is at the other end, and how much of this process each client may hold at a time. */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import {
  addressFromBytes,
  clientBehindProxies,
  forwardedHops,
  inetBytes,
  isWithin,
  type Network,
  rateLimitKey,
} from '../core/address.ts';

/** One client address in the forms that the request path needs, worked out once. */
export class Client {
  readonly address: string;
  /** Postgres's binary inet. */
  readonly inet: Uint8Array;
  /** Requests under way and bytes of their unfinished bodies, in this process. */
  requests = 0;
  gatheringBytes = 0;
  readonly #limitKey: string;
  /** A key is the same string every time: its hash is worked out once, not for each request. */
  readonly #scopedKeys = new Map<string, string>();

  constructor(address: string) {
    this.address = address;
    this.inet = inetBytes(address);
    this.#limitKey = rateLimitKey(address);
  }

  /** Key of a rate-limit counter of this client (IPv4 whole, IPv6 by its /64) within a scope, e.g. a webhook's id. */
  limitKey(scope: string): string {
    const known = this.#scopedKeys.get(scope);
    if (known !== undefined) return known;
    const key = `${scope}:${this.#limitKey}`;
    if (this.#scopedKeys.size < SCOPES_MAX) this.#scopedKeys.set(scope, key);
    return key;
  }
}

/** Scopes of one client that are remembered; more are worked out each time. */
const SCOPES_MAX = 64;

/** Clients that are remembered while idle; dropping one only costs working its forms out again. */
const IDLE_CLIENTS_MAX = 10_000;

export class Clients {
  readonly #trusted: readonly Network[];
  readonly #known = new Map<string | number, Client>();

  /** @param trusted networks whose Forwarded, X-Forwarded-For and PROXY protocol are believed (TRUSTED_PROXIES). */
  constructor(trusted: readonly Network[]) {
    this.#trusted = trusted;
  }

  /** The client of a request; call while its HttpRequest lives. */
  of(res: HttpResponse, req: HttpRequest): Client {
    const bytes = res.getRemoteAddress();
    const peer = this.#knownPeer(bytes);
    if (this.#trusted.length === 0 || !isWithin(peer.address, this.#trusted)) return peer;
    const address = this.#behindProxy(peer.address, res, req);
    return this.#known.get(address) ?? this.#remember(address, address);
  }

  /** An IPv4 peer is found by its number: making its text costs more than all the rest. */
  #knownPeer(bytes: ArrayBuffer): Client {
    if (bytes.byteLength === 4) {
      const number = new DataView(bytes).getUint32(0);
      return this.#known.get(number) ?? this.#remember(number, addressFromBytes(new Uint8Array(bytes)));
    }
    const address = addressFromBytes(new Uint8Array(bytes));
    return this.#known.get(address) ?? this.#remember(address, address);
  }

  /** The PROXY protocol speaks for the socket; what stands in header fields is walked from there. */
  #behindProxy(peer: string, res: HttpResponse, req: HttpRequest): string {
    const proxied = new Uint8Array(res.getProxiedRemoteAddress());
    const from = proxied.length > 0 ? addressFromBytes(proxied) : peer;
    const [byForwarded, byForwardedFor] = headerHops(req).map((hops) => clientBehindProxies(from, hops, this.#trusted));
    // A proxy writes one of the two and hands on the other as its client sent it: where they disagree, neither is believed.
    if (byForwarded === byForwardedFor || byForwardedFor === from) return byForwarded!;
    return byForwarded === from ? byForwardedFor! : from;
  }

  #remember(key: string | number, address: string): Client {
    if (this.#known.size >= IDLE_CLIENTS_MAX) this.#forgetIdle();
    const client = new Client(address);
    this.#known.set(key, client);
    return client;
  }

  #forgetIdle(): void {
    for (const [key, client] of this.#known) if (client.requests === 0) this.#known.delete(key);
  }
}

/** The hops of Forwarded (RFC 7239) and those of X-Forwarded-For; repeated fields are joined in order. */
function headerHops(req: HttpRequest): [forwarded: string[], forwardedFor: string[]] {
  const forwarded: string[] = [];
  const forwardedFor: string[] = [];
  req.forEach((name, value) => {
    if (name === 'forwarded') forwarded.push(...forwardedHops(value));
    else if (name === 'x-forwarded-for') forwardedFor.push(...value.split(','));
  });
  return [forwarded, forwardedFor];
}
