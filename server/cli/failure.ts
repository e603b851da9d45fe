/** What a person is told when something cannot be done. */
import { SettingsError } from '../config.ts';
import { DatabaseError } from '../db/attach.ts';
import { EmbeddedPostgresError } from '../db/embedded/join.ts';
import { DataDirInUseError, LockError } from '../db/lock.ts';
import { SharedStoreError } from '../ratelimit/shared.ts';

const expected = [SettingsError, DatabaseError, EmbeddedPostgresError, DataDirInUseError, LockError, SharedStoreError];

/** One sentence each for what can be expected to go wrong; the stack as well for what cannot. */
export function describeFailure(error: unknown): string {
  if (expected.some((kind) => error instanceof kind))
    return (error as Error).message
      .split('\n')
      .map((line) => `weir: ${line}`)
      .join('\n');
  return `weir: unexpected failure, please report it: ${error instanceof Error ? error.stack : String(error)}`;
}
