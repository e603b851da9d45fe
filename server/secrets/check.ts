/** Checks that the key matches the database. */
import { join } from 'node:path';
import type { Database } from '../db/pool.ts';
import { findOpening } from '../db/queries/webhook-secrets.ts';
import { type Settings, SettingsError } from '../settings/read.ts';
import { derivedKeys, type SecretsKeys } from './keys.ts';
import { unseal } from './seal.ts';

/**
 * Throws SettingsError if no stored webhook secret can be decrypted: with the wrong key, every webhook would answer 503. If only some
 * cannot be decrypted, Weir starts, and only their webhooks answer 503.
 */
export async function checkKeys(database: Database, settings: Settings, keys: SecretsKeys): Promise<void> {
  const derived = derivedKeys(keys, 'webhook-secrets');
  const { examined, found } = await findOpening(
    database,
    (webhookId, sealed) => unseal(sealed, derived, webhookId) !== null,
  );
  if (found || examined === 0) return;
  const given =
    settings.SECRETS_KEY === undefined ? `the key in ${join(settings.DATA_DIR, 'secrets.key')}` : 'SECRETS_KEY';
  throw new SettingsError([
    `${given} opens none of the stored webhook secrets (${examined}); give the key that they were stored under, as SECRETS_KEY, or as SECRETS_KEY_PREVIOUS beside a new one. ` +
      'If that key is lost, give a webhook a new secret: npx weir webhook rotate ID',
  ]);
}
