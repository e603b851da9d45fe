/** Settings for a test: those given, the defaults for the rest, in a directory of its own that goes when the test ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { readSettings, type Settings } from '../../server/settings/read.ts';

/** A 32 byte key, as SECRETS_KEY wants it. */
export const someKey = Buffer.alloc(32, 7).toString('base64');

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'weir-t-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export function settingsOf(environment: Record<string, string>): Settings {
  return readSettings(environment, temporaryDirectory());
}
