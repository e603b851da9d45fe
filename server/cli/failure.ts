/** Message that a failed command prints. */

import { DatabaseError } from '../db/attach.ts';
import { DataDirInUseError } from '../db/data-dir.ts';
import { EmbeddedPostgresError } from '../db/embedded/join.ts';
import { LockError } from '../db/lock.ts';
import { SharedStoreError } from '../ratelimit/shared.ts';
import { SettingsError } from '../settings/read.ts';

const expected = [SettingsError, DatabaseError, EmbeddedPostgresError, DataDirInUseError, LockError, SharedStoreError];

/** Returns the message alone for an expected error, and the stack for a bug. */
export function describeFailure(error: unknown): string {
  if (expected.some((kind) => error instanceof kind))
    return (error as Error).message
      .split('\n')
      .map((line) => `weir: ${line}`)
      .join('\n');
  return `weir: unexpected failure, please report it: ${error instanceof Error ? error.stack : String(error)}`;
}
