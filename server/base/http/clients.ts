/** Identifies the client of a request and tracks the resources that each client holds in this process. */
import type { HttpResponse } from 'uWebSockets.js';
import {
  addressFromBytes,
  addressFromText,
  forwardedHops,
  inetBytes,
  isPrivate,
  isWithin,
  type Network,
  rateLimitKey,
} from '../../model/address.ts';

/** Resources that a client holds in this process. Addresses with the same rate-limit key, such as an IPv6 /64, share one. */
export interface ClientLoad {
  /** Open requests. A request ends when the socket has taken its whole answer or its connection is closed. */
  requests: number;
  /** Bytes of incomplete bodies. */
  gatheringBytes: number;
  /** Bytes of large answers without credentials, of which the client may have read nothing. See unread.ts. */
  sentBytes: number;
}

/** One client address in the forms that the request path needs, each computed once. */
export class Client {
  readonly address: string;
  /** The address in the binary format of the Postgres type inet. */
  readonly inet: Uint8Array;
  readonly load: ClientLoad;
  /** True if the address is of a trusted proxy, which may report a client address. */
  readonly isProxy: boolean;
  /** True for trusted proxies, this machine and private networks: CLIENT_CONNECTIONS_MAX does not apply to them. */
  readonly isInternal: boolean;
  /** The full IPv4 address, or the /64 of an IPv6 address: what counts as one client. */
  readonly network: string;
  /** Keys are reused as the same string object, so that the hash is computed once and not for each request. */
  readonly #scopedKeys = new Map<string, string>();

  constructor(address: string, network: string, load: ClientLoad, isProxy: boolean) {
    this.address = address;
    this.inet = inetBytes(address);
    this.load = load;
    this.isProxy = isProxy;
    this.isInternal = isProxy || isPrivate(address);
    this.network = network;
  }

  /** Returns this client's rate-limit key within a scope, e.g. a webhook id. */
  limitKey(scope: string): string {
    const known = this.#scopedKeys.get(scope);
    if (known !== undefined) return known;
    const key = `${scope}:${this.network}`;
    if (this.#scopedKeys.size < SCOPES_MAX) this.#scopedKeys.set(scope, key);
    return key;
  }
}

/** Maximum scopes cached for one client. Keys of further scopes are computed on each call. */
const SCOPES_MAX = 64;

/** Maximum client addresses cached. Evicting one only costs computing its forms again. */
const KNOWN_CLIENTS_MAX = 10_000;

type ForwardedHeader = 'forwarded' | 'x-forwarded-for' | 'proxy-protocol';

export class Clients {
  readonly #trusted: readonly Network[];
  readonly #forwardedHeader: ForwardedHeader;
  /** By normalized address. */
  readonly #known = new Map<string, Client>();
  /** By the address bytes of the socket: as a number, or as text of 16 characters. */
  readonly #peers = new Map<number | string, Client>();
  /** By rate-limit key. A load in use stays here even if its client address is evicted. */
  readonly #loads = new Map<string, ClientLoad>();
  /** The peer of every open connection; null: they have several. */
  #onlyPeer: Client | null = null;

  /**
   * @param trusted networks of the proxies that may report the client address (TRUSTED_PROXIES).
   * @param forwardedHeader how they report it. The other two are ignored, because a proxy may forward what its client sent there.
   */
  constructor(trusted: readonly Network[], forwardedHeader: ForwardedHeader) {
    this.#trusted = trusted;
    this.#forwardedHeader = forwardedHeader;
  }

  /**
   * A connection was opened. Returns its peer. While all open connections have the same peer, such as a proxy, requests do not ask the kernel
   * for the peer, which would take 1 us. After a connection of another peer, requests ask until all connections are closed, because
   * uWebSockets.js does not report which connection closed.
   * @param isOnly no other connection is open.
   */
  connected(res: HttpResponse, isOnly: boolean): Client {
    const peer = this.#peer(res.getRemoteAddress());
    this.#onlyPeer = isOnly || peer === this.#onlyPeer ? peer : null;
    return peer;
  }

  /**
   * Returns the client of a request: the peer, or the client that trusted proxies report. Call it in the request handler.
   * @param headers alternating field names (lower case) and values.
   */
  of(res: HttpResponse, headers: readonly string[]): Client {
    const peer = this.#onlyPeer ?? this.#peer(res.getRemoteAddress());
    if (!peer.isProxy) return peer;
    if (this.#forwardedHeader !== 'proxy-protocol')
      return this.#behindProxies(peer, hopsIn(headers, this.#forwardedHeader));
    const proxied = new Uint8Array(res.getProxiedRemoteAddress());
    return proxied.length > 0 ? this.#withAddress(addressFromBytes(proxied)) : peer;
  }

  /** Looks up the bytes, because formatting an address costs more than the rest of the lookup. */
  #peer(bytes: ArrayBuffer): Client {
    const key = bytes.byteLength === 4 ? new DataView(bytes).getUint32(0) : Buffer.from(bytes).toString('latin1');
    const known = this.#peers.get(key);
    if (known !== undefined) return known;
    const client = this.#withAddress(addressFromBytes(new Uint8Array(bytes)));
    this.#peers.set(key, client);
    return client;
  }

  /**
   * Returns, from right to left, the first hop that is not a trusted proxy. An unreadable hop ends the search, and the last readable one is
   * the client.
   */
  #behindProxies(peer: Client, hops: readonly string[]): Client {
    let client = peer;
    for (let i = hops.length - 1; i >= 0 && client.isProxy; i--) {
      const hop = this.#hop(hops[i]!.trim());
      if (hop === null) break;
      client = hop;
    }
    return client;
  }

  /** Most proxies write a normalized address, which needs no parsing when it is known. */
  #hop(text: string): Client | null {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const address = addressFromText(text);
    return address === null ? null : this.#withAddress(address);
  }

  #withAddress(address: string): Client {
    return this.#known.get(address) ?? this.#remember(address);
  }

  #remember(address: string): Client {
    if (this.#known.size >= KNOWN_CLIENTS_MAX) this.#forget();
    const network = rateLimitKey(address);
    let load = this.#loads.get(network);
    if (load === undefined) {
      load = { requests: 0, gatheringBytes: 0, sentBytes: 0 };
      this.#loads.set(network, load);
    }
    const client = new Client(address, network, load, isWithin(address, this.#trusted));
    this.#known.set(address, client);
    return client;
  }

  /** Runs once per KNOWN_CLIENTS_MAX new clients, so the amortized cost is small. */
  #forget(): void {
    this.#known.clear();
    this.#peers.clear();
    for (const [key, load] of this.#loads)
      if (load.requests === 0 && load.gatheringBytes === 0) this.#loads.delete(key);
    if (this.#onlyPeer === null) return;
    // The only peer stays the same object, so that its load is counted once.
    this.#known.set(this.#onlyPeer.address, this.#onlyPeer);
    this.#loads.set(this.#onlyPeer.network, this.#onlyPeer.load);
  }
}

/** Returns the hops in the field (RFC 7239 Forwarded, or X-Forwarded-For). Repeated fields are joined in order. */
function hopsIn(headers: readonly string[], field: Exclude<ForwardedHeader, 'proxy-protocol'>): string[] {
  const hops: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== field) continue;
    const value = headers[i + 1]!;
    hops.push(...(field === 'forwarded' ? forwardedHops(value) : value.split(',')));
  }
  return hops;
}
