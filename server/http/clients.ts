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
export interface Client {
  readonly address: string;
  /** IPv4 whole, IPv6 by its /64. */
  readonly limitKey: string;
  /** Postgres's binary inet. */
  readonly inet: Uint8Array;
  /** Requests under way and bytes of their unfinished bodies, in this process. */
  requests: number;
  gatheringBytes: number;
}

/** Clients that are remembered while idle; dropping one only costs working its forms out again. */
const IDLE_CLIENTS_MAX = 10_000;

export class Clients {
  readonly #trusted: readonly Network[];
  readonly #known = new Map<string, Client>();

  /** @param trusted networks whose Forwarded, X-Forwarded-For and PROXY protocol are believed (TRUSTED_PROXIES). */
  constructor(trusted: readonly Network[]) {
    this.#trusted = trusted;
  }

  /** The client of a request; call while its HttpRequest lives. */
  of(res: HttpResponse, req: HttpRequest): Client {
    let address = addressFromBytes(new Uint8Array(res.getRemoteAddress()));
    if (isWithin(address, this.#trusted)) address = this.#behindProxy(address, res, req);
    return this.#known.get(address) ?? this.#remember(address);
  }

  #behindProxy(peer: string, res: HttpResponse, req: HttpRequest): string {
    const hops = headerHops(req);
    if (hops.length > 0) return clientBehindProxies(peer, hops, this.#trusted);
    const proxied = new Uint8Array(res.getProxiedRemoteAddress());
    return proxied.length > 0 ? addressFromBytes(proxied) : peer;
  }

  #remember(address: string): Client {
    if (this.#known.size >= IDLE_CLIENTS_MAX) this.#forgetIdle();
    const client = {
      address,
      limitKey: rateLimitKey(address),
      inet: inetBytes(address),
      requests: 0,
      gatheringBytes: 0,
    };
    this.#known.set(address, client);
    return client;
  }

  #forgetIdle(): void {
    for (const [address, client] of this.#known) if (client.requests === 0) this.#known.delete(address);
  }
}

/** Forwarded (RFC 7239) where it is sent, else X-Forwarded-For; repeated fields are joined in order. */
function headerHops(req: HttpRequest): string[] {
  const forwarded: string[] = [];
  const forwardedFor: string[] = [];
  req.forEach((name, value) => {
    if (name === 'forwarded') forwarded.push(...forwardedHops(value));
    else if (name === 'x-forwarded-for') forwardedFor.push(...value.split(','));
  });
  return forwarded.length > 0 ? forwarded : forwardedFor;
}
