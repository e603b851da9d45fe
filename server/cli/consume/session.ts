/** An agent's session with a Weir: signed in with the credential, renewed before it ends and when it is refused. */

import { CommandError } from '../io.ts';
import type { ApiClient } from './client.ts';
import { type Repetition, repeat, unexpected } from './repeat.ts';

const PATH = 'api/v1/agent/session';
const ANSWER_TIMEOUT_MS = 30_000;

/** A session is renewed when this part of its life is over, so that no call is refused in the usual course. */
const RENEWED_AT = 0.8;

interface SessionParts {
  client: ApiClient;
  /** The credential as it is now: a rotated one is taken without a restart. */
  readCredential: () => Promise<string>;
  repetition: Repetition;
}

export class Session {
  readonly #parts: SessionParts;
  #token: string | null = null;
  #renewAtMs = 0;
  #endsAtMs = 0;
  #signingIn: Promise<void> | null = null;

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /**
   * A token in force as far as this side knows; null when a signal stopped it. Callers at the same time share one sign-in.
   * Rejects with CommandError when the credential is refused.
   * @param signal ends this caller's wait alone
   */
  async token(signal: AbortSignal): Promise<string | null> {
    const token = this.#token;
    const nowMs = performance.now();
    if (token === null || nowMs >= this.#endsAtMs) await unless(signal, this.#renew());
    // Nobody waits for a renewal in good time; one that fails is met by the next call, which signs in.
    else if (nowMs >= this.#renewAtMs) this.#renew().catch(() => this.refused(token));
    return signal.aborted ? null : this.#token;
  }

  /** The server refused this token: the next call signs in, unless somebody has already. */
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
    const told = await repeat(async () => {
      const token = await readCredential();
      return client.post({ path: PATH, token, body: {}, timeoutMs: ANSWER_TIMEOUT_MS, signal });
    }, repetition);
    if (told.kind === 'stopped') return;
    if (told.status === 401)
      throw new CommandError(
        `${client.base} refused the credential: it was rotated or revoked, or belongs to another Weir; ` +
          'a new one comes from `weir agent rotate ID`.',
      );
    const { access_token: token, expires_in: seconds } = (told.document ?? {}) as Record<string, unknown>;
    if (told.status !== 200) throw unexpected(client.base, PATH, told.status, told.document);
    if (typeof token !== 'string' || typeof seconds !== 'number')
      throw new CommandError(`${client.base} answered ${PATH} with something that is no session; is it a Weir?`);
    this.#token = token;
    this.#renewAtMs = startMs + seconds * 1000 * RENEWED_AT;
    this.#endsAtMs = startMs + seconds * 1000;
  }
}

/** Waits for the promise, or for the signal. */
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
