/** Settings for a test: those given, defaults for the others, in a temporary directory. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSettings, type Settings } from '../../server/base/settings/read.ts';

/** A 32 byte key in the format of SECRETS_KEY. */
export const someKey = Buffer.alloc(32, 7).toString('base64');

/** Removed at the end of the run, with all that the tests wrote (run-folder.ts). Not for databases: they take 40 MB each. */
export function temporaryDirectory(): string {
  return mkdtempSync(join(tmpdir(), 'weir-t-'));
}

export function settingsOf(environment: Record<string, string>): Settings {
  return readSettings(environment, temporaryDirectory());
}
