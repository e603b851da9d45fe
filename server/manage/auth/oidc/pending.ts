/**
 * Pending sign-ins: the values that a callback is checked against, sealed into a cookie, so that any process can finish it. Each has a
 * cookie of its own, so that two tabs of a browser can sign in at once.
 */
import type { Exchange } from '../../../base/http/exchange.ts';
import { CLOCK_DIFFERENCE_MS, type PreviousKey } from '../../../store/secrets/keys.ts';
import { seal, unsealBy } from '../../../store/secrets/seal.ts';
import { setCookie } from '../sessions.ts';

/** Longest time between the redirect to the provider and its callback. */
const PENDING_SECONDS = 600;
/** Pending sign-ins of a browser; one more replaces the oldest. A cookie has about 500 bytes. */
export const PENDING_MAX = 5;
/** Characters of the state in the name of its cookie: 96 bits. */
const STATE_CHARACTERS = 16;

export interface Pending {
  state: string;
  nonce: string;
  /** PKCE (RFC 7636). */
  verifier: string;
  /** A URL on Weir's own origin, see returnAddress. */
  returnTo: string;
  /** The provider was asked for a fresh sign-in. */
  fresh: boolean;
}

interface PendingParts {
  publicUrl: string;
  /** Keys for the purpose oidc-state, current first. */
  keys: readonly Buffer[];
  previousKey: PreviousKey;
  /** Binding of a cookie: one created for another issuer or client cannot be unsealed. */
  context: string;
}

export class PendingSignIns {
  readonly #parts: PendingParts;
  readonly #prefix: string;

  constructor(parts: PendingParts) {
    this.#parts = parts;
    this.#prefix = parts.publicUrl.startsWith('https:') ? '__Host-weir_oidc_' : 'weir_oidc_';
  }

  /** Whether the browser has begun a sign-in that is neither finished nor expired. */
  hasAny(exchange: Exchange): boolean {
    return exchange.cookieNames(this.#prefix).length > 0;
  }

  keep(exchange: Exchange, pending: Pending, nowMs: number): void {
    for (const name of exchange.cookieNames(this.#prefix).slice(0, 1 - PENDING_MAX)) this.#delete(exchange, name);
    const { publicUrl, keys, context } = this.#parts;
    const text = JSON.stringify({ ...pending, untilMs: nowMs + PENDING_SECONDS * 1000 });
    const value = seal(Buffer.from(text), keys[0]!, context).toString('base64url');
    exchange.setHeader('set-cookie', setCookie(publicUrl, this.#nameOf(pending.state), value, PENDING_SECONDS));
  }

  /** Returns null when the cookie of this state is missing, expired or invalid. Rejects with DatabaseUnavailable. */
  async read(exchange: Exchange, state: string, nowMs: number): Promise<Pending | null> {
    const { keys, context, previousKey } = this.#parts;
    const opened = unsealBy(Buffer.from(exchange.cookie(this.#nameOf(state)) ?? '', 'base64url'), keys, context);
    if (opened === null) return null;
    if (opened.keyIndex > 0 && !(await previousKey.isAccepted(PENDING_SECONDS))) return null;
    const { untilMs, ...pending } = JSON.parse(opened.plain.toString()) as Pending & { untilMs: number };
    const longestMs = PENDING_SECONDS * 1000 + CLOCK_DIFFERENCE_MS;
    return pending.state === state && nowMs < untilMs && untilMs <= nowMs + longestMs ? pending : null;
  }

  forget(exchange: Exchange, { state }: Pending): void {
    this.#delete(exchange, this.#nameOf(state));
  }

  #delete(exchange: Exchange, name: string): void {
    exchange.setHeader('set-cookie', setCookie(this.#parts.publicUrl, name, '', 0));
  }

  #nameOf(state: string): string {
    return `${this.#prefix}${state.slice(0, STATE_CHARACTERS)}`;
  }
}
