/** What the primary does to the database before the processes use it, and the wait for a database that is away at the start. */
import { setTimeout as delay } from 'node:timers/promises';
import { systemActor } from '../audit/actor.ts';
import { ensureAdministrator, setupAddress } from '../auth/setup.ts';
import { checkConnectionBudget, unusable } from '../db/attach.ts';
import { withoutSecrets } from '../db/conninfo.ts';
import { migrate } from '../db/migrate.ts';
import type { Horizon } from '../db/partitions.ts';
import type { Database } from '../db/pool.ts';
import { isPassing } from '../db/unavailable.ts';
import { backoffMs } from '../net/backoff.ts';
import { checkKeys, derivedKeys, type SecretsKeys } from '../secrets/keys.ts';
import { recordCurrentKey } from '../secrets/rotate.ts';
import type { Settings } from '../settings/read.ts';
import type { Log } from '../telemetry/log.ts';
import { extendPartitions } from './maintenance.ts';

interface PrepareParts {
  conninfo: string;
  database: Database;
  /** Current settings: they may change while the database is awaited. */
  settings: () => Settings;
  keys: SecretsKeys;
  log: Log;
}

export interface Prepared {
  horizon: Horizon;
  /** The setup URL when users sign in with passwords and no administrator exists; otherwise null. */
  address: string | null;
}

/** The database is away; `reason` is libpq's, for users. */
export interface Away {
  reason: string;
}

const RETRY = { firstMs: 200, maxMs: 5_000 };
/** The reason of a wait is logged again after this time. */
const LOG_EVERY_MS = 60_000;

/**
 * Migrates, and checks that the settings fit the database. Safe to repeat. Returns `Away` for a database that may be reached later. Throws
 * OperatorError when only another setting would help.
 */
export async function prepareDatabase({
  conninfo,
  database,
  settings: read,
  keys,
  log,
}: PrepareParts): Promise<Prepared | Away> {
  const settings = read();
  try {
    const migrated = await migrate(database).catch((error) => {
      throw isPassing(error) ? error : unusable(conninfo, error, settings);
    });
    for (const name of migrated) log('migrated', { migration: name });
    await checkConnectionBudget(database, settings);
    await checkKeys(database, settings, keys);
    if (await recordCurrentKey(database, keys, systemActor)) log('secrets_key_replaced');
    const address = await firstAdministrator(database, settings, derivedKeys(keys, 'setup')[0]!);
    return { horizon: await extendPartitions(database, log), address };
  } catch (error) {
    if (isPassing(error)) return { reason: withoutSecrets((error as Error).message, conninfo) };
    throw error;
  }
}

/** Repeats `prepareDatabase` with back-off until it succeeds; null when `stopping` aborts. Rejects as it does. */
export async function waitForDatabase(
  parts: PrepareParts,
  { reason }: Away,
  stopping: AbortSignal,
): Promise<Prepared | null> {
  const startedMs = performance.now();
  let loggedMs = Number.NEGATIVE_INFINITY;
  for (let attempt = 1; ; attempt++) {
    const nowMs = performance.now();
    if (nowMs - loggedMs >= LOG_EVERY_MS) {
      parts.log('database_awaited', { reason, attempts: attempt, waited_s: Math.round((nowMs - startedMs) / 1000) });
      loggedMs = nowMs;
    }
    await delay(backoffMs(attempt - 1, RETRY, Math.random()), null, { signal: stopping }).catch(() => {});
    if (stopping.aborted) return null;
    const outcome = await prepareDatabase(parts);
    if ('horizon' in outcome) return outcome;
    reason = outcome.reason;
  }
}

async function firstAdministrator(database: Database, settings: Settings, key: Buffer): Promise<string | null> {
  if (settings.AUTH_MODE === 'hosted') return null;
  await ensureAdministrator(database, settings);
  return setupAddress(database, key, settings.PUBLIC_URL);
}
