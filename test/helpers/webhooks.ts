/** Webhooks for tests, made as a command makes them. */
import { Changes } from '../../server/db/announce.ts';
import type { Database } from '../../server/db/pool.ts';
import { derivedKeys, type SecretsKeys } from '../../server/keys.ts';
import { systemActor } from '../../server/manage/actor.ts';
import { Webhooks } from '../../server/manage/webhooks.ts';

export function webhooksOf(
  { database, conninfo }: { database: Database; conninfo: string },
  keys: SecretsKeys,
): Webhooks {
  const key = derivedKeys(keys, 'webhook-secrets')[0]!;
  return new Webhooks({ database, changes: new Changes(conninfo), key }, systemActor);
}
