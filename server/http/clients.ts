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
} from '../net/address.ts';

/** What a client holds of this process. The addresses of one rate-limit key, such as an IPv6 /64, share one. */
export interface ClientLoad {
  /** Requests under way; a request ends when its answer has gone to the socket, or its connection is gone. */
  requests: number;
  /** Bytes of unfinished bodies. */
  gatheringBytes: number;
}

/** One client address in the forms that the request path needs, computed once. */
export class Client {
  readonly address: string;
  /** Postgres's binary inet. */
  readonly inet: Uint8Array;
  readonly load: ClientLoad;
  readonly #limitKey: string;
  /** A key is the same string every time: its hash is computed once, not for each request. */
  readonly #scopedKeys = new Map<string, string>();

  constructor(address: string, limitKey: string, load: ClientLoad) {
    this.address = address;
    this.inet = inetBytes(address);
    this.load = load;
    this.#limitKey = limitKey;
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

/** Scopes of one client that are remembered; more are computed each time. */
const SCOPES_MAX = 64;

/** Client addresses that are remembered; to forget one only costs computing its forms again. */
const KNOWN_CLIENTS_MAX = 10_000;

/** FORWARDED_HEADER: where a trusted proxy names the client. */
type ForwardedHeader = 'forwarded' | 'x-forwarded-for' | 'proxy-protocol';

export class Clients {
  readonly #trusted: readonly Network[];
  readonly #forwardedHeader: ForwardedHeader;
  readonly #known = new Map<string | number, Client>();
  /** By rate-limit key. A load that is in use stays here, even when its client address is forgotten. */
  readonly #loads = new Map<string, ClientLoad>();

  /**
   * @param trusted networks of the proxies that may name the client (TRUSTED_PROXIES).
   * @param forwardedHeader where they do it; the other two ways are ignored, since a proxy may pass on what its client sent there.
   */
  constructor(trusted: readonly Network[], forwardedHeader: ForwardedHeader) {
    this.#trusted = trusted;
    this.#forwardedHeader = forwardedHeader;
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

  #behindProxy(peer: string, res: HttpResponse, req: HttpRequest): string {
    if (this.#forwardedHeader !== 'proxy-protocol')
      return clientBehindProxies(peer, headerHops(req, this.#forwardedHeader), this.#trusted);
    const proxied = new Uint8Array(res.getProxiedRemoteAddress());
    return proxied.length > 0 ? addressFromBytes(proxied) : peer;
  }

  #remember(key: string | number, address: string): Client {
    if (this.#known.size >= KNOWN_CLIENTS_MAX) this.#forget();
    const limitKey = rateLimitKey(address);
    let load = this.#loads.get(limitKey);
    if (load === undefined) {
      load = { requests: 0, gatheringBytes: 0 };
      this.#loads.set(limitKey, load);
    }
    const client = new Client(address, limitKey, load);
    this.#known.set(key, client);
    return client;
  }

  /** Once in KNOWN_CLIENTS_MAX new clients, so that its cost for each is small. */
  #forget(): void {
    this.#known.clear();
    for (const [key, load] of this.#loads)
      if (load.requests === 0 && load.gatheringBytes === 0) this.#loads.delete(key);
  }
}

/** The hops that the field (RFC 7239, or X-Forwarded-For) names; repeated fields are joined in order. */
function headerHops(req: HttpRequest, field: Exclude<ForwardedHeader, 'proxy-protocol'>): string[] {
  const hops: string[] = [];
  req.forEach((name, value) => {
    if (name === field) hops.push(...(field === 'forwarded' ? forwardedHops(value) : value.split(',')));
  });
  return hops;
}
