/**
 * A pending sign-in: the values that its callback is checked against, sealed into a cookie, so that any process can finish it.
 */

import type { Exchange } from '../../../base/http/exchange.ts';
import { CLOCK_DIFFERENCE_MS, type PreviousKey } from '../../../store/secrets/keys.ts';
import { seal, unsealBy } from '../../../store/secrets/seal.ts';
import { setCookie } from '../sessions.ts';

/** Longest time between the redirect to the provider and its callback. */
const PENDING_SECONDS = 600;

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

/** A browser holds one pending sign-in: a new one replaces it. */
export class PendingCookie {
  readonly #parts: PendingParts;
  readonly #name: string;

  constructor(parts: PendingParts) {
    this.#parts = parts;
    this.#name = parts.publicUrl.startsWith('https:') ? '__Host-weir_oidc' : 'weir_oidc';
  }

  keep(exchange: Exchange, pending: Pending, nowMs: number): void {
    const { publicUrl, keys, context } = this.#parts;
    const text = JSON.stringify({ ...pending, untilMs: nowMs + PENDING_SECONDS * 1000 });
    const value = seal(Buffer.from(text), keys[0]!, context).toString('base64url');
    exchange.setHeader('set-cookie', setCookie(publicUrl, this.#name, value, PENDING_SECONDS));
  }

  /** Returns null when the cookie is missing, expired or invalid. Rejects with DatabaseUnavailable. */
  async read(exchange: Exchange, nowMs: number): Promise<Pending | null> {
    const { keys, context, previousKey } = this.#parts;
    const opened = unsealBy(Buffer.from(exchange.cookie(this.#name) ?? '', 'base64url'), keys, context);
    if (opened === null) return null;
    if (opened.keyIndex > 0 && !(await previousKey.isAccepted(PENDING_SECONDS))) return null;
    const { untilMs, ...pending } = JSON.parse(opened.plain.toString()) as Pending & { untilMs: number };
    const longestMs = PENDING_SECONDS * 1000 + CLOCK_DIFFERENCE_MS;
    return nowMs < untilMs && untilMs <= nowMs + longestMs ? pending : null;
  }

  forget(exchange: Exchange): void {
    exchange.setHeader('set-cookie', setCookie(this.#parts.publicUrl, this.#name, '', 0));
  }
}
