/** The credential file of an agent. Messages never include its content. */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseCredential } from '../../auth/credential.ts';
import { CommandError } from '../io.ts';

/** Far more than the length of a credential. */
const FILE_BYTES_MAX = 4_096;

/** Permission bits: readable by the group or by others. */
const OTHERS_READ = 0o044;

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
  if (found.size > FILE_BYTES_MAX) throw holdsNone(name);
  let last = await readCredential(path, name);
  // A pipe, such as <(...), can be read only once.
  const again = found.isFile();
  return {
    read: async () => {
      if (again) last = await readCredential(path, name).catch(() => last);
      return last;
    },
    advice:
      again && (found.mode & OTHERS_READ) !== 0
        ? `Other users on this machine can read ${name}; restrict it: chmod 600 ${name}`
        : null,
  };
}

async function readCredential(path: string, name: string): Promise<string> {
  const text = (await readFile(path, 'utf8').catch(unreadable(name))).trim();
  if (parseCredential('wa', text) === null) throw holdsNone(name);
  return text;
}

function holdsNone(name: string): CommandError {
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
