/**
 * A copy of the webhooks in DATA_DIR, for the spool: a process that starts while Postgres is away verifies events with it. It is encrypted
 * as a whole: without SECRETS_KEY it can neither be read nor changed.
 */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { replaceFile } from '../../base/files/durable-file.ts';
import { backoffMs, pause } from '../../base/time/backoff.ts';
import type { Database } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import { migrationFiles } from '../../store/migrate.ts';
import { readWebhooks, type WebhookRow } from '../../store/queries/webhooks/webhooks.ts';
import { derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { seal, unseal } from '../../store/secrets/seal.ts';

interface SavedParts {
  dataDir: string;
  keys: SecretsKeys;
  database: Database;
  /** An older copy is not used: it may hold secrets that were replaced since. */
  ageMaxMs: () => number;
  nowMs: () => number;
  onFailed: (error: Error) => void;
}

interface Saved {
  /** The newest migration of the build that wrote it: rows of another build may have other columns. */
  schema: number;
  savedAtMs: number;
  rows: WebhookRow[];
}

/** Maximum rows of the copy: as many as a process caches, see Directory. */
const ROWS_MAX = 20_000;
/** Minimum time between two copies, however many webhooks change. Without a change, a copy is written every RENEW_EVERY_MS. */
const SAVE_EVERY_MS = 1_000;
const RENEW_EVERY_MS = 600_000;
/** Pauses after a failure. They are short, so that a copy with a replaced secret is replaced soon after an outage. */
const RETRY = { firstMs: 2_000, maxMs: 10_000 };
const PURPOSE = 'saved-webhooks';

/** Keeps the copy up to date from the first call of `save` until `close`. */
export function savedWebhooks({ dataDir, keys, database, ageMaxMs, nowMs, onFailed }: SavedParts) {
  const path = pathIn(dataDir);
  const schema = migrationFiles().at(-1)!.version;
  const stopping = new AbortController();
  const { signal } = stopping;
  let isChanged = false;
  let saving: Promise<void> | null = null;
  let renewing: NodeJS.Timeout | undefined;

  /** Some webhook changed, or may have: writes a new copy soon. */
  function save(): void {
    isChanged = true;
    if (signal.aborted) return;
    saving ??= saveWhileChanged().finally(() => {
      saving = null;
    });
  }

  async function saveWhileChanged(): Promise<void> {
    clearTimeout(renewing);
    for (let failures = 0; isChanged && !signal.aborted; ) {
      isChanged = false;
      try {
        await write();
        failures = 0;
      } catch (error) {
        isChanged = true;
        failures++;
        // During an outage the copy stays as it is. The listener may stay connected, so nothing else calls `save` at the end.
        if (!(error instanceof DatabaseUnavailable)) onFailed(error as Error);
      }
      await pause(failures === 0 ? SAVE_EVERY_MS : backoffMs(failures - 1, RETRY, Math.random()), signal);
    }
    if (!signal.aborted) renewing = setTimeout(save, RENEW_EVERY_MS).unref();
  }

  async function write(): Promise<void> {
    const savedAtMs = nowMs();
    const saved: Saved = { schema, savedAtMs, rows: await readWebhooks(database, null, ROWS_MAX) };
    replaceFile(path, seal(serialize(saved), derivedKeys(keys, PURPOSE)[0]!, PURPOSE));
  }

  return {
    save,
    /** Reads the copy; null if it does not exist, or if this build and these keys cannot use it. */
    read(): WebhookRow[] | null {
      try {
        const saved = deserialize(unseal(readFileSync(path), derivedKeys(keys, PURPOSE), PURPOSE)!) as Saved;
        return saved.schema === schema && nowMs() - saved.savedAtMs <= ageMaxMs() ? saved.rows : null;
      } catch {
        return null;
      }
    },
    async close(): Promise<void> {
      stopping.abort();
      clearTimeout(renewing);
      await saving;
    },
  };
}

/** Removes the copy: without a spool nothing uses it. */
export function removeSavedWebhooks(dataDir: string): void {
  rmSync(pathIn(dataDir), { force: true });
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'webhooks.saved');
}
