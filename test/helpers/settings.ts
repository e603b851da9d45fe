/** Settings for a test: those given, defaults for the others, in a temporary directory that is removed after the test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { readSettings, type Settings } from '../../server/base/settings/read.ts';

/** A 32 byte key in the format of SECRETS_KEY. */
export const someKey = Buffer.alloc(32, 7).toString('base64');

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'weir-t-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export function settingsOf(environment: Record<string, string>): Settings {
  return readSettings(environment, temporaryDirectory());
}
