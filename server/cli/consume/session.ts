/** An agent's session with Weir: created with the credential, and renewed before it expires and when the server refuses it. */

import { CommandError } from '../io.ts';
import type { ApiClient } from './client.ts';
import { type Repetition, repeat, unexpected } from './repeat.ts';

const PATH = 'api/v1/agent/session';
const ANSWER_TIMEOUT_MS = 30_000;

/** A session is renewed after this share of its lifetime, so that calls are normally not refused. */
const RENEWED_AT = 0.8;

interface SessionParts {
  client: ApiClient;
  /** Reads the current credential, so that a rotated credential takes effect without a restart. */
  readCredential: () => Promise<string>;
  repetition: Repetition;
}

export class AgentSession {
  readonly #parts: SessionParts;
  #token: string | null = null;
  #renewAtMs = 0;
  #endsAtMs = 0;
  #signingIn: Promise<void> | null = null;

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /**
   * Returns a token that has not expired by the local clock; null when a signal stopped the wait. Concurrent callers share
   * one sign-in. Rejects with CommandError when the credential is refused.
   * @param signal ends the wait of this caller only
   */
  async token(signal: AbortSignal): Promise<string | null> {
    const token = this.#token;
    const nowMs = performance.now();
    if (token === null || nowMs >= this.#endsAtMs) await unless(signal, this.#renew());
    // An early renewal runs in the background. When it fails, the next call signs in.
    else if (nowMs >= this.#renewAtMs) this.#renew().catch(() => this.refused(token));
    return signal.aborted ? null : this.#token;
  }

  /** The server refused this token. The next call signs in, unless the token has already been replaced. */
  refused(token: string): void {
    if (this.#token === token) this.#token = null;
  }

  #renew(): Promise<void> {
    this.#signingIn ??= this.#signIn().finally(() => {
      this.#signingIn = null;
    });
    return this.#signingIn;
  }

  async #signIn(): Promise<void> {
    const { client, readCredential, repetition } = this.#parts;
    const { signal } = repetition;
    const startMs = performance.now();
    const reply = await repeat(async () => {
      const token = await readCredential();
      return client.post({ path: PATH, token, body: {}, timeoutMs: ANSWER_TIMEOUT_MS, signal });
    }, repetition);
    if (reply.kind === 'stopped') return;
    if (reply.status === 401)
      throw new CommandError(
        `${client.base} refused the credential: it was rotated or revoked, or belongs to another Weir server; ` +
          'print a new one with `weir agent rotate ID`.',
      );
    const { access_token: token, expires_in: seconds } = (reply.document ?? {}) as Record<string, unknown>;
    if (reply.status !== 200) throw unexpected(client.base, PATH, reply.status, reply.document);
    if (typeof token !== 'string' || typeof seconds !== 'number')
      throw new CommandError(
        `${client.base} answered ${PATH} with something other than a session; is it a Weir server?`,
      );
    this.#token = token;
    this.#renewAtMs = startMs + seconds * 1000 * RENEWED_AT;
    this.#endsAtMs = startMs + seconds * 1000;
  }
}

/** Waits for the promise or for the signal, whichever comes first. */
async function unless(signal: AbortSignal, promise: Promise<void>): Promise<void> {
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  signal.addEventListener('abort', stop);
  if (signal.aborted) stop();
  try {
    await Promise.race([promise, stopped]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
