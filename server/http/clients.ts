/** Identifies the client of a request and tracks the resources that each client holds in this process. */
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

/** Resources that a client holds in this process. Addresses with the same rate-limit key, such as an IPv6 /64, share one. */
export interface ClientLoad {
  /** Open requests. A request ends when the socket has taken its whole answer or its connection is closed. */
  requests: number;
  /** Bytes of incomplete bodies. */
  gatheringBytes: number;
}

/** One client address in the forms that the request path needs, each computed once. */
export class Client {
  readonly address: string;
  /** The address in the binary format of the Postgres type inet. */
  readonly inet: Uint8Array;
  readonly load: ClientLoad;
  readonly #limitKey: string;
  /** Keys are reused as the same string object, so that the hash is computed once and not for each request. */
  readonly #scopedKeys = new Map<string, string>();

  constructor(address: string, limitKey: string, load: ClientLoad) {
    this.address = address;
    this.inet = inetBytes(address);
    this.load = load;
    this.#limitKey = limitKey;
  }

  /** Returns this client's rate-limit key (full IPv4 address or IPv6 /64) within a scope, e.g. a webhook id. */
  limitKey(scope: string): string {
    const known = this.#scopedKeys.get(scope);
    if (known !== undefined) return known;
    const key = `${scope}:${this.#limitKey}`;
    if (this.#scopedKeys.size < SCOPES_MAX) this.#scopedKeys.set(scope, key);
    return key;
  }
}

/** Maximum scopes cached for one client. Keys of further scopes are computed on each call. */
const SCOPES_MAX = 64;

/** Maximum client addresses cached. Evicting one only costs computing its forms again. */
const KNOWN_CLIENTS_MAX = 10_000;

/** FORWARDED_HEADER: how a trusted proxy reports the client address. */
type ForwardedHeader = 'forwarded' | 'x-forwarded-for' | 'proxy-protocol';

export class Clients {
  readonly #trusted: readonly Network[];
  readonly #forwardedHeader: ForwardedHeader;
  readonly #known = new Map<string | number, Client>();
  /** By rate-limit key. A load in use stays here even if its client address is evicted. */
  readonly #loads = new Map<string, ClientLoad>();

  /**
   * @param trusted networks of the proxies that may report the client address (TRUSTED_PROXIES).
   * @param forwardedHeader how they report it. The other two are ignored, because a proxy may forward what its client sent there.
   */
  constructor(trusted: readonly Network[], forwardedHeader: ForwardedHeader) {
    this.#trusted = trusted;
    this.#forwardedHeader = forwardedHeader;
  }

  /** Returns the client of a request. Call it while the HttpRequest is valid. */
  of(res: HttpResponse, req: HttpRequest): Client {
    const bytes = res.getRemoteAddress();
    const peer = this.#knownPeer(bytes);
    if (this.#trusted.length === 0 || !isWithin(peer.address, this.#trusted)) return peer;
    const address = this.#behindProxy(peer.address, res, req);
    return this.#known.get(address) ?? this.#remember(address, address);
  }

  /** Looks up an IPv4 peer by its 32-bit number: formatting the address costs more than the rest of the lookup. */
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

  /** Runs once per KNOWN_CLIENTS_MAX new clients, so the amortized cost is small. */
  #forget(): void {
    this.#known.clear();
    for (const [key, load] of this.#loads)
      if (load.requests === 0 && load.gatheringBytes === 0) this.#loads.delete(key);
  }
}

/** Returns the hops in the field (RFC 7239 Forwarded, or X-Forwarded-For). Repeated fields are joined in order. */
function headerHops(req: HttpRequest, field: Exclude<ForwardedHeader, 'proxy-protocol'>): string[] {
  const hops: string[] = [];
  req.forEach((name, value) => {
    if (name === field) hops.push(...(field === 'forwarded' ? forwardedHops(value) : value.split(',')));
  });
  return hops;
}
