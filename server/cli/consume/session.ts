/**
 * An agent's session with Weir: created with the credential, and renewed before it expires and when the server refuses it. Messages
 * never include the content of the credential file.
 */

import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseCredential } from '../../auth/credential.ts';
import { CommandError } from '../io.ts';
import { type ApiClient, type Repetition, repeat, unexpected } from './client.ts';

/** Far more than the length of a credential. */
const FILE_BYTES_MAX = 4_096;

/** Permission bits: readable by the group or by others. */
const READABLE_BY_OTHERS = 0o044;

interface CredentialFile {
  /** Reads the file again. Returns the previous credential when the file is gone or can be read only once. */
  read: () => Promise<string>;
  /** Advice about the file's permissions; null when they are correct. */
  advice: string | null;
}

/** Reads the file once. Throws CommandError when the file cannot be read or holds no credential. */
export async function openCredentialFile(name: string, directory: string): Promise<CredentialFile> {
  const path = resolve(directory, name);
  const found = await stat(path).catch(unreadable(name));
  if (found.size > FILE_BYTES_MAX) throw noCredential(name);
  let last = await readCredential(path, name);
  // A pipe, such as <(...), can be read only once.
  const again = found.isFile();
  return {
    read: async () => {
      if (again) last = await readCredential(path, name).catch(() => last);
      return last;
    },
    advice:
      again && (found.mode & READABLE_BY_OTHERS) !== 0
        ? `Other users on this machine can read ${name}; restrict it: chmod 600 ${name}`
        : null,
  };
}

async function readCredential(path: string, name: string): Promise<string> {
  const text = (await readFile(path, 'utf8').catch(unreadable(name))).trim();
  if (parseCredential('wa', text) === null) throw noCredential(name);
  return text;
}

function noCredential(name: string): CommandError {
  return new CommandError(
    `${name} contains no agent credential (wa_…); store the complete credential that \`weir agent add\` printed in it.`,
  );
}

function unreadable(name: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    const why =
      error.code === 'ENOENT'
        ? 'there is no such file'
        : error.code === 'EISDIR'
          ? 'it is a directory'
          : (error.code ?? error.message);
    throw new CommandError(`${name} cannot be read: ${why}.`);
  };
}

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
