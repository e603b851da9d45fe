/** The agent's credential: a text, a function, or a file. Messages never include any part of it. */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { whyUnreadable } from '../../base/files/text.ts';
import { type CredentialKind, parseCredential } from '../../model/credential.ts';
import { WeirError } from './http.ts';

const FILE_BYTES_MAX = 4_096;

const READABLE_BY_OTHERS = 0o044;

interface CredentialFile {
  /** Reads the file again. Returns the previous credential when the file is gone or can be read only once. */
  read: () => Promise<string>;
  /** False: `read` returns the same text always, because the file can be read only once. */
  changes: boolean;
  /** Advice about the file's permissions; null when they are correct. */
  advice: string | null;
}

/**
 * Reads the file once. Rejects with WeirError when the file cannot be read or holds no credential.
 * @param name path as given, for messages; relative to `directory`
 * @param kinds allowed kinds of credentials: `wa` of an agent, `wu` the API token of a user
 */
export async function openCredentialFile(
  name: string,
  directory: string,
  kinds: readonly CredentialKind[] = ['wa'],
): Promise<CredentialFile> {
  const path = resolve(directory, name);
  const found = await stat(path).catch(unreadable(name));
  if (found.size > FILE_BYTES_MAX) throw noCredential(name);
  let last = await readCredential(path, name, kinds);
  // A pipe, such as <(...), can be read only once.
  const changes = found.isFile();
  return {
    changes,
    read: async () => {
      if (changes) last = await readCredential(path, name, kinds).catch(() => last);
      return last;
    },
    advice:
      changes && (found.mode & READABLE_BY_OTHERS) !== 0
        ? `Other users on this machine can read ${name}; restrict it: chmod 600 ${name}`
        : null,
  };
}

/** Reads the current credential. Called for each new session, so that a rotated credential takes effect without a restart. */
export type CredentialReader = () => Promise<string>;

/** Where the credential comes from: exactly one of the two. */
export type CredentialSource =
  | {
      /**
       * The credential (`wa_…`) that `weir agent add` printed, or a function that returns it whenever a session is opened. When
       * the function fails, it is called again after a wait.
       */
      credential: string | (() => string | Promise<string>);
      credentialFile?: never;
    }
  | {
      credential?: never;
      /** A file that holds only the credential. It is read again whenever a session is opened. */
      credentialFile: string;
    };

/** Throws WeirError when `credential` is a text that is not a credential. A file is read by the first call. */
export function credentialReader({ credential, credentialFile }: CredentialSource): CredentialReader {
  if (credentialFile !== undefined) {
    let file: CredentialFile | null = null;
    return async () => {
      file ??= await openCredentialFile(credentialFile, process.cwd());
      return file.read();
    };
  }
  if (typeof credential === 'function') return async () => checked(await credential());
  const text = checked(credential);
  return async () => text;
}

function checked(credential: unknown): string {
  const text = typeof credential === 'string' ? credential.trim() : '';
  if (parseCredential('wa', text) !== null) return text;
  const what = credential === undefined ? 'is missing' : 'is not an agent credential (wa_…)';
  throw new WeirError('credential_invalid', `The option credential ${what}.`, STORE_IT);
}

async function readCredential(path: string, name: string, kinds: readonly CredentialKind[]): Promise<string> {
  const text = (await readFile(path, 'utf8').catch(unreadable(name))).trim();
  if (kinds.every((kind) => parseCredential(kind, text) === null)) throw noCredential(name);
  return text;
}

const STORE_IT = 'Use the complete credential that `weir agent add` printed.';

function noCredential(name: string): WeirError {
  return new WeirError(
    'credential_invalid',
    `${name} contains no agent credential (wa_…); store the complete credential that \`weir agent add\` printed in it.`,
    STORE_IT,
  );
}

function unreadable(name: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    const fix = 'Give the path of a readable file.';
    throw new WeirError('credential_unreadable', `${name} cannot be read: ${whyUnreadable(error)}.`, fix);
  };
}
