/**
 * Counts requests below /in/ whose URL belongs to no webhook (404), by client and path. Memory is bounded, because unauthenticated clients
 * choose both.
 *
 * Frequent rows are kept whatever clients send (Misra and Gries, 1982): when the table is full, a request without a row subtracts 1 from
 * every count, and rows at 0 are removed. So a count is too low by at most 1/101 of all these requests, and a client and path with a larger
 * share are in the table. A client has at most CLIENT_PATHS_MAX rows, and one more that its further paths share.
 */

export const UNKNOWN_URLS_MAX = 100;
export const CLIENT_PATHS_MAX = 4;
const PATH_CHARACTERS_MAX = 100;
const FURTHER_PATHS = '/in/…';

interface UnknownUrl {
  /** The address, or the /64 of an IPv6 address. */
  client: string;
  path: string;
  /** A lower bound. */
  requests: number;
  /** ISO. */
  last_at: string;
}

export class UnknownUrls {
  readonly #byKey = new Map<string, UnknownUrl>();

  /** @param nowMs Unix milliseconds */
  note(client: string, path: string, nowMs: number): void {
    const shown = path.length > PATH_CHARACTERS_MAX ? `${path.slice(0, PATH_CHARACTERS_MAX)}…` : path;
    const known = this.#byKey.get(keyOf(client, shown)) ?? this.#byKey.get(keyOf(client, FURTHER_PATHS));
    if (known !== undefined) this.#count(known, nowMs);
    else this.#add(client, this.#pathsOf(client) < CLIENT_PATHS_MAX ? shown : FURTHER_PATHS, nowMs);
  }

  /** The most frequent rows, at most `max`. */
  top(max: number): UnknownUrl[] {
    return [...this.#byKey.values()].sort((one, other) => other.requests - one.requests).slice(0, max);
  }

  #count(entry: UnknownUrl, nowMs: number): void {
    entry.requests++;
    entry.last_at = new Date(nowMs).toISOString();
  }

  #add(client: string, path: string, nowMs: number): void {
    if (this.#byKey.size < UNKNOWN_URLS_MAX) {
      this.#byKey.set(keyOf(client, path), { client, path, requests: 1, last_at: new Date(nowMs).toISOString() });
      return;
    }
    for (const [key, entry] of this.#byKey) if (--entry.requests === 0) this.#byKey.delete(key);
  }

  #pathsOf(client: string): number {
    let paths = 0;
    for (const entry of this.#byKey.values()) if (entry.client === client) paths++;
    return paths;
  }
}

/** An address contains no space, so the key is unambiguous. */
function keyOf(client: string, path: string): string {
  return `${client} ${path}`;
}
