/** Webhooks for tests, created like by a command. */

import { Webhooks } from '../../server/api/webhooks/service.ts';
import { systemActor } from '../../server/audit/actor.ts';
import { Changes } from '../../server/db/announce.ts';
import type { Database } from '../../server/db/pool.ts';
import type { Result } from '../../server/http/problem.ts';
import { SavedWebhooks } from '../../server/primary/saved-webhooks.ts';
import { type NewWebhook, webhookInput } from '../../server/resources/webhooks.ts';
import { derivedKeys, type SecretsKeys } from '../../server/secrets/keys.ts';
import { until } from './wait.ts';

export function webhooksOf(
  { database, conninfo }: { database: Database; conninfo: string },
  keys: SecretsKeys,
): Webhooks {
  const key = derivedKeys(keys, 'webhook-secrets')[0]!;
  return new Webhooks({ database, changes: new Changes(conninfo), key }, systemActor);
}

/** Validated input for a new webhook; its name does not matter. */
export function newWebhook(given: Partial<NewWebhook>): NewWebhook {
  const { create } = webhookInput({ WEBHOOK_MAX_PAYLOAD_BYTES: 1_048_576, RETENTION_DAYS: 30 });
  return create.parse({ name: 'test', ...given });
}

/** Returns the value of a successful change. Throws otherwise. */
export function made<T>(change: Result<T>): T {
  if (change.kind !== 'done') throw new Error(`the change was not made: ${JSON.stringify(change)}`);
  return change.value;
}

/** Waits until the primary with this DATA_DIR and key has written a copy with this webhook. */
export async function untilSaved(dataDir: string, key: string, webhookId: string, database: Database): Promise<void> {
  const saved = new SavedWebhooks({
    dataDir,
    keys: [key],
    database,
    ageMaxMs: () => Number.POSITIVE_INFINITY,
    nowMs: Date.now,
    onFailed: () => {},
  });
  await until(() => saved.read()?.some(({ id }) => id === webhookId), { timeoutMs: 90_000 });
}
