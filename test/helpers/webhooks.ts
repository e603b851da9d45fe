/** Webhooks for tests, created like by a command. */

import type { Result } from '../../server/base/http/problem.ts';
import { Webhooks } from '../../server/manage/api/webhooks/webhook-changes.ts';
import { type NewWebhook, webhookInput } from '../../server/model/webhooks.ts';
import { savedWebhooks } from '../../server/operate/primary/saved-webhooks.ts';
import { systemActor } from '../../server/store/audit/record.ts';
import { Changes } from '../../server/store/connect/listen.ts';
import type { Database, DatabasePool } from '../../server/store/connect/pool.ts';
import { derivedKeys, type SecretsKeys } from '../../server/store/secrets/keys.ts';
import { until } from './wait.ts';

export function webhooksOf({ database }: { database: DatabasePool }, keys: SecretsKeys): Webhooks {
  const key = derivedKeys(keys, 'webhook-secrets')[0]!;
  return new Webhooks({ database, changes: new Changes(database), key }, systemActor);
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
  const saved = savedWebhooks({
    dataDir,
    keys: [key],
    database,
    ageMaxMs: () => Number.POSITIVE_INFINITY,
    nowMs: Date.now,
    onFailed: () => {},
  });
  await until(() => saved.read()?.some(({ id }) => id === webhookId));
}
