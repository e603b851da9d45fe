/** What the primary does to the database before the processes use it, and the waits for a database and a rate-limit store that are away. */
import { setTimeout as delay } from 'node:timers/promises';
import { openLimiter } from '../../base/ratelimit/open.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { backoffMs } from '../../base/time/backoff.ts';
import type { StartWait } from '../../manage/api/status/health.ts';
import { ensureAdministrator, setupAddress } from '../../manage/auth/setup.ts';
import { OperatorError } from '../../model/fault.ts';
import { systemActor } from '../../store/audit/record.ts';
import { withoutSecrets } from '../../store/connect/conninfo.ts';
import type { DatabasePool } from '../../store/connect/pool.ts';
import { isPassing } from '../../store/connect/unavailable.ts';
import { prepareServingRole } from '../../store/embedded/serving-role.ts';
import { migrate } from '../../store/migrate.ts';
import { checkConnectionBudget, unusable } from '../../store/open.ts';
import type { Horizon } from '../../store/retention/partitions.ts';
import { checkKeys, derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { recordCurrentKey } from '../../store/secrets/rotate.ts';
import { requireFit } from '../../store/server-checks.ts';
import { extendPartitions } from './maintenance.ts';

export interface PrepareParts {
  conninfo: string;
  database: DatabasePool;
  /** Current settings: they may change while the database is awaited. */
  settings: () => Settings;
  keys: SecretsKeys;
  log: Log;
  /** Called with what the preparation waits for, when that changes. */
  onAwaited: (awaited: StartWait) => void;
}

export interface Prepared {
  horizon: Horizon;
  /** The setup URL when users sign in with passwords and no administrator exists; otherwise null. */
  address: string | null;
}

/** The database is away; `reason` is libpq's, for users. */
interface Away {
  reason: string;
}

const RETRY = { firstMs: 200, maxMs: 5_000 };
const LOG_EVERY_MS = 60_000;

/**
 * Migrates, and checks that the settings fit the database; repeats it with back-off while the database is away. Resolves with null when
 * `stopping` aborts. Throws OperatorError when only another setting would help.
 */
export async function prepareDatabase(parts: PrepareParts, stopping: AbortSignal): Promise<Prepared | null> {
  const startedMs = performance.now();
  let loggedMs = Number.NEGATIVE_INFINITY;
  for (let attempt = 1; ; attempt++) {
    const outcome = await tryToPrepare(parts, stopping);
    if (!('reason' in outcome)) return outcome;
    parts.onAwaited('database');
    const nowMs = performance.now();
    if (nowMs - loggedMs >= LOG_EVERY_MS) {
      const { reason } = outcome;
      parts.log('database_awaited', { reason, attempts: attempt, waited_s: Math.round((nowMs - startedMs) / 1000) });
      loggedMs = nowMs;
    }
    await delay(backoffMs(attempt - 1, RETRY, Math.random()), null, { signal: stopping }).catch(() => {});
    if (stopping.aborted) return null;
  }
}

async function tryToPrepare(parts: PrepareParts, stopping: AbortSignal): Promise<Prepared | Away> {
  const { conninfo, database, settings: read, keys, log, onAwaited } = parts;
  const settings = read();
  try {
    const migrated = await requireFit(database)
      .then(() =>
        migrate(database, {
          onBegun: () => onAwaited('migrations'),
          stopping,
          onBlocked: (waitsFor) => log('migration_blocked', { waits_for: waitsFor }),
        }),
      )
      .catch((error) => {
        throw isPassing(error) ? error : unusable(conninfo, error, settings);
      });
    for (const name of migrated) log('migrated', { migration: name });
    if (settings.database.kind === 'embedded') await prepareServingRole(database);
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

/**
 * Waits for a shared rate-limit store that RATE_LIMIT_REQUIRED demands, for RATE_LIMIT_WAIT_SECONDS; then rejects with SharedStoreError.
 * Resolves also when `stopping` aborts.
 * @param onAwaited called when the store did not answer at first.
 */
export async function waitForLimiter(
  settings: Settings,
  log: Log,
  onAwaited: () => void,
  stopping: AbortSignal,
): Promise<void> {
  const untilMs = performance.now() + settings.RATE_LIMIT_WAIT_SECONDS * 1000;
  for (let attempt = 0; settings.RATE_LIMIT_REQUIRED && !stopping.aborted; attempt++) {
    try {
      const limiter = await openLimiter(settings, log, { requireStore: true });
      return await limiter.close();
    } catch (error) {
      if (!(error instanceof OperatorError) || performance.now() >= untilMs) throw error;
      if (attempt === 0) log('rate_limit_store_awaited', { reason: error.finding });
      onAwaited();
    }
    await delay(backoffMs(attempt, RETRY, Math.random()), null, { signal: stopping }).catch(() => {});
  }
}

async function firstAdministrator(database: DatabasePool, settings: Settings, key: Buffer): Promise<string | null> {
  if (settings.AUTH_MODE === 'hosted') return null;
  await ensureAdministrator(database, settings);
  return setupAddress(database, key, settings.PUBLIC_URL);
}
