/** An agent's session with Weir: created with the credential, and renewed before it expires and when the server refuses it. */
import { type Backoff, backoffMs, pause } from '../../base/time/backoff.ts';
import type { CredentialReader } from './credential.ts';
import { reasonOf, WeirError } from './errors.ts';
import { type Answer, type ApiClient, type Repetition, repeat, unexpected, unknownDocument } from './http.ts';
import type { Notify } from './notices.ts';

const PATH = 'api/v1/agent/session';
const ANSWER_TIMEOUT_MS = 30_000;
const CHECK_IT = 'Check what the function credential reads.';

/** How long an agent whose credential was rotated waits for the new one to be stored. */
export const CREDENTIAL_WAIT_MS = 300_000;
/** Delay between two looks whether another credential is stored. */
const look: Backoff = { firstMs: 1_000, maxMs: 10_000 };

/** A session is renewed after this share of its lifetime, so that calls are normally not refused. */
const RENEWED_AT = 0.8;

interface SessionParts {
  client: ApiClient;
  readCredential: CredentialReader;
  repetition: Repetition;
  /** Gets the wait for another credential, and its end. Null: no other one is waited for. */
  notify: Notify | null;
}

/** A sign-in in progress. It is cancelled when each caller that joined it has stopped waiting. */
interface SignIn {
  done: Promise<void>;
  cancel: AbortController;
  joined: number;
}

export class AgentSession {
  readonly #parts: SessionParts;
  #token: string | null = null;
  #renewAtMs = 0;
  #endsAtMs = 0;
  #signIn: SignIn | null = null;
  /** Waited for another credential since the last one was accepted. */
  #waitedMs = 0;

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /**
   * Returns a token that has not expired by the local clock; null when a signal stopped the wait. Concurrent callers share
   * one sign-in. Rejects with WeirError when the credential is refused: after CREDENTIAL_WAIT_MS, if an earlier one was accepted.
   * @param signal ends the wait of this caller only
   */
  async token(signal: AbortSignal): Promise<string | null> {
    if (signal.aborted) return null;
    const token = this.#token;
    const nowMs = performance.now();
    if (token === null || nowMs >= this.#endsAtMs) await unless(signal, this.#renew(signal));
    // An early renewal runs in the background. When it fails, the next call signs in.
    else if (nowMs >= this.#renewAtMs) this.#renew(signal).catch(() => this.refused(token));
    return signal.aborted ? null : this.#token;
  }

  /** The server refused this token. The next call signs in, unless the token has already been replaced. */
  refused(token: string): void {
    if (this.#token === token) this.#token = null;
  }

  #renew(signal: AbortSignal): Promise<void> {
    this.#signIn ??= this.#startSignIn();
    const signIn = this.#signIn;
    signIn.joined += 1;
    const leave = () => {
      signIn.joined -= 1;
      if (signIn.joined > 0) return;
      signIn.cancel.abort();
      if (this.#signIn === signIn) this.#signIn = null;
    };
    signal.addEventListener('abort', leave);
    return signIn.done.finally(() => signal.removeEventListener('abort', leave));
  }

  #startSignIn(): SignIn {
    const cancel = new AbortController();
    const done = this.#open(cancel.signal).finally(() => {
      if (this.#signIn === signIn) this.#signIn = null;
    });
    const signIn: SignIn = { done, cancel, joined: 0 };
    return signIn;
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { client, readCredential, repetition, notify } = this.#parts;
    const startMs = performance.now();
    let unread: WeirError | null = null;
    let credential = '';
    const attempt = async (): Promise<Answer> => {
      try {
        credential = await readCredential();
        unread = null;
        return client.send({
          method: 'POST',
          path: PATH,
          token: credential,
          body: {},
          timeoutMs: ANSWER_TIMEOUT_MS,
          signal,
        });
      } catch (error) {
        if (error instanceof WeirError) throw error;
        // The function of the user failed, for example because its store of secrets did not answer.
        unread = new WeirError('credential_unreadable', `The function credential failed: ${reasonOf(error)}`, CHECK_IT);
        return { kind: 'failed', name: unread.message };
      }
    };
    const reply = await repeat(attempt, repetition, signal).catch((error) => {
      throw unread ?? error;
    });
    if (reply.kind === 'stopped') return;
    if (reply.status === 401) {
      if (await this.#another(credential, signal)) return this.#open(signal);
      if (signal.aborted) return;
      throw new WeirError(
        'credential_refused',
        `${client.base} refused the credential: it was rotated or revoked, or belongs to another Weir server; ` +
          'print a new one with `weir agent rotate ID`.',
        'Print a new credential with `weir agent rotate ID`, and give it to this agent.',
        { status: 401 },
      );
    }
    const { access_token: token, expires_in: seconds } = (reply.document ?? {}) as Record<string, unknown>;
    if (reply.status !== 200) throw unexpected(client, PATH, reply.status, reply.document);
    if (typeof token !== 'string' || typeof seconds !== 'number')
      throw unknownDocument(client, PATH, 'something other than a session');
    this.#token = token;
    this.#renewAtMs = startMs + seconds * 1000 * RENEWED_AT;
    this.#endsAtMs = startMs + seconds * 1000;
    if (this.#waitedMs > 0) notify?.({ kind: 'recovered', message: 'The other credential was accepted.' });
    this.#waitedMs = 0;
  }

  /** Waits for another credential than the refused one. A credential that was never accepted is not waited for: it is a mistake. */
  async #another(refused: string, signal: AbortSignal): Promise<boolean> {
    const { client, readCredential, repetition, notify } = this.#parts;
    if (notify === null || this.#endsAtMs === 0) return false;
    const { wait = pause } = repetition;
    const message = `${client.base} refused the credential; waiting up to ${CREDENTIAL_WAIT_MS / 60_000} minutes for another one.`;
    if (this.#waitedMs === 0) notify({ kind: 'retrying', message, cause: '401', afterMs: look.firstMs });
    for (let looks = 0; this.#waitedMs < CREDENTIAL_WAIT_MS; looks++) {
      const ms = backoffMs(looks, look, Math.random());
      this.#waitedMs += ms;
      await wait(ms, signal);
      if (signal.aborted) return false;
      if ((await readCredential().catch(() => refused)) !== refused) return true;
    }
    return false;
  }
}

/** Waits for the promise or for the signal, whichever comes first. */
async function unless(signal: AbortSignal, promise: Promise<void>): Promise<void> {
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  signal.addEventListener('abort', stop);
  try {
    await Promise.race([promise, stopped]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
