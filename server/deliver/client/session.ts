/**
 * The session of an agent: opened with its credential, renewed before it expires and when the server refuses it; and the calls that use it.
 */
import { type Backoff, backoffMs, pause } from '../../base/time/backoff.ts';
import type { CredentialReader } from './credential.ts';
import { reasonOf } from './delivery.ts';
import { type ApiClient, type HttpAnswer, type Repeat, unexpected, unknownDocument, WeirError } from './http.ts';
import type { Notify } from './options.ts';

const PATH = 'api/v1/agent/session';
const ANSWER_TIMEOUT_MS = 30_000;

/** How long an agent whose credential was rotated waits for the new one to be stored. */
export const CREDENTIAL_WAIT_MS = 300_000;
const look: Backoff = { firstMs: 1_000, maxMs: 10_000 };

/** Delay between sign-ins while new sessions are refused. Causes: a wrong clock, or a process that does not know the agent yet. */
const refusal: Backoff = { firstMs: 250, maxMs: 10_000 };

/** A session is renewed after this share of its lifetime, so that calls are normally not refused. */
const RENEWED_AT = 0.8;

interface SessionParts {
  client: ApiClient;
  readCredential: CredentialReader;
  repeat: Repeat;
  /** Gets the wait for another credential, and its end. Null: no other one is waited for. */
  notify: Notify | null;
  wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

interface AgentCall<T> {
  path: string;
  /** Sent by POST; without it the call is a GET. */
  body?: object;
  /** How long the server may wait before it answers. */
  waitSeconds?: number;
  /** Undefined: not the document of the API. */
  understand: (document: object) => T | undefined;
}

/** Signs in as needed, for all calls of an agent. */
export class AgentSession {
  readonly #parts: Required<SessionParts>;
  #token: string | null = null;
  #renewAtMs = 0;
  #endsAtMs = 0;
  #signIn: Promise<void> | null = null;
  /** Time spent in waits for another credential since the last one was accepted. */
  #waitedMs = 0;

  constructor(parts: SessionParts) {
    this.#parts = { wait: pause, ...parts };
  }

  /** Repeats the call until it is answered. Returns null when `signal` ended it. Rejects with WeirError when a repeat cannot help. */
  async call<T>({ path, body, waitSeconds = 0, understand }: AgentCall<T>, signal: AbortSignal): Promise<T | null> {
    const { client, repeat, wait } = this.#parts;
    const request = body === undefined ? { method: 'GET' as const, path } : { method: 'POST' as const, path, body };
    const timeoutMs = waitSeconds * 1000 + ANSWER_TIMEOUT_MS;
    for (let refusals = 0; ; refusals++) {
      const token = await this.token(signal);
      if (token === null) return null;
      const reply = await repeat(() => client.send({ ...request, token, timeoutMs, signal }), signal);
      if (reply.kind === 'stopped') return null;
      if (reply.status === 401) {
        this.refused(token);
        // The first refusal is normal: the session has expired.
        if (refusals > 0) await wait(backoffMs(refusals - 1, refusal, Math.random()), signal);
        continue;
      }
      if (reply.status !== 200) throw unexpected(client, path, reply.status, reply.document);
      const understood = understand(Object(reply.document));
      if (understood === undefined) throw unknownDocument(client, path);
      return understood;
    }
  }

  /**
   * Returns a token that has not expired by the local clock; null when the signal stopped the wait. Concurrent callers share one sign-in.
   * Rejects with WeirError when the credential is refused; if a credential was accepted before, only after CREDENTIAL_WAIT_MS.
   */
  async token(signal: AbortSignal): Promise<string | null> {
    while (!signal.aborted) {
      const token = this.#token;
      const nowMs = performance.now();
      if (token !== null && nowMs < this.#endsAtMs) {
        // An early renewal runs in the background. When it fails, the next call signs in.
        if (nowMs >= this.#renewAtMs) this.#renew(signal).catch(() => this.refused(token));
        return token;
      }
      this.#token = null;
      await unless(signal, this.#renew(signal));
      if (this.#token !== null) return signal.aborted ? null : this.#token;
      // The sign-in was that of another caller, and ended with its signal.
    }
    return null;
  }

  /** The server refused this token. The next call signs in, unless the token has already been replaced. */
  refused(token: string): void {
    if (this.#token === token) this.#token = null;
  }

  #renew(signal: AbortSignal): Promise<void> {
    this.#signIn ??= this.#open(signal).finally(() => {
      this.#signIn = null;
    });
    return this.#signIn;
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { client, readCredential, repeat, notify } = this.#parts;
    const startMs = performance.now();
    let unread: WeirError | null = null;
    let credential = '';
    const attempt = async (): Promise<HttpAnswer> => {
      try {
        credential = await readCredential();
        unread = null;
        const timeoutMs = ANSWER_TIMEOUT_MS;
        return client.send({ method: 'POST', path: PATH, token: credential, body: {}, timeoutMs, signal });
      } catch (error) {
        if (error instanceof WeirError) throw error;
        // The function of the user failed, for example because its store of secrets did not answer.
        const message = `The function credential failed: ${reasonOf(error)}`;
        unread = new WeirError('credential_unreadable', message, 'Check what the function credential reads.');
        return { kind: 'failed', name: message };
      }
    };
    const reply = await repeat(attempt, signal).catch((error) => {
      throw unread ?? error;
    });
    if (reply.kind === 'stopped') return;
    if (reply.status === 401) {
      if (await this.#isReplaced(credential, signal)) return this.#open(signal);
      if (signal.aborted) return;
      throw new WeirError(
        'credential_refused',
        `${client.base} refused the credential: it was rotated or revoked, or belongs to another Weir server; ` +
          'print a new one with `weir agent rotate ID`.',
        'Print a new credential with `weir agent rotate ID`, and give it to this agent.',
        { status: 401 },
      );
    }
    if (reply.status !== 200) throw unexpected(client, PATH, reply.status, reply.document);
    const { access_token: token, expires_in: seconds } = Object(reply.document);
    if (typeof token !== 'string' || typeof seconds !== 'number') throw unknownDocument(client, PATH);
    this.#token = token;
    this.#renewAtMs = startMs + seconds * 1000 * RENEWED_AT;
    this.#endsAtMs = startMs + seconds * 1000;
    if (this.#waitedMs > 0) notify?.({ kind: 'recovered', message: 'The other credential was accepted.' });
    this.#waitedMs = 0;
  }

  /** Waits for another credential than the refused one. A credential that was never accepted is not waited for: it is a mistake. */
  async #isReplaced(refused: string, signal: AbortSignal): Promise<boolean> {
    const { client, readCredential, notify, wait } = this.#parts;
    if (notify === null || this.#endsAtMs === 0) return false;
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

function unless(signal: AbortSignal, promise: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => resolve();
    signal.addEventListener('abort', end);
    promise.finally(() => signal.removeEventListener('abort', end)).then(resolve, reject);
  });
}
