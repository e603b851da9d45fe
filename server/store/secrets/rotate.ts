/**
 * Re-encrypts everything sealed under SECRETS_KEY_PREVIOUS with SECRETS_KEY. Can run while Weir serves with both keys. Each batch is a
 * transaction, and rows already under the current key are skipped, so a killed run can be repeated.
 */
import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import type { Database } from '../connect/pool.ts';
import {
  beforeFirst,
  lockSealedRows,
  type SealedRow,
  sealedTables,
  updateSealedRows,
} from '../queries/secrets/sealed-rows.ts';
import { isServerConnected, readReplacedSeconds, recordKeys, wasKeyUsed } from '../queries/secrets/secrets-keys.ts';
import { derivedKeys, type SecretsKeys } from './keys.ts';
import { fingerprintOf, seal, unsealBy } from './seal.ts';

type TableName = keyof typeof sealedTables;

/** Rows per transaction. Their locks are held for about 10 ms. */
const BATCH_ROWS = 200;
/** Maximum passes. A further pass finds rows that a process not yet restarted sealed under the previous key during the last one. */
const PASSES_MAX = 5;

interface RotationCount {
  /** Rows with a ciphertext after the rotation. */
  stored: number;
  /** Rows re-encrypted by this run. */
  reencrypted: number;
  /** Rows that were under the current key before the run. */
  already_current: number;
  /** Rows that no given key decrypts. */
  unreadable: number;
}

export interface KeyRotation {
  /** Fingerprints, in hex. */
  current_key: string;
  previous_key: string | null;
  counts: Record<TableName, RotationCount>;
  /** True if rows were sealed under the previous key during the run: a process has not been restarted with the new key. */
  previous_key_in_use: boolean;
  /** Seconds since the previous key was replaced; null if unknown or if there is no previous key. */
  replaced_seconds: number | null;
}

/** `not_started`: the serving processes do not have the current key and could not decrypt rows sealed under it. */
type RotationOutcome = { kind: 'done'; rotation: KeyRotation } | { kind: 'not_started' };

/** Rotates all sealed tables. Rejects with DatabaseUnavailable; batches committed until then are kept. */
export async function rotateKeys(database: Database, keys: SecretsKeys, actor: Actor): Promise<RotationOutcome> {
  const [current, previous] = keys.map(fingerprintOf);
  if (!(await wasKeyUsed(database, current!)) && (await isServerConnected(database))) return { kind: 'not_started' };
  await recordCurrentKey(database, keys, actor, { again: true });
  const webhook_secrets = await rotateTable(database, keys, 'webhook_secrets');
  const verify_tokens = await rotateTable(database, keys, 'verify_tokens');
  const cells = await rotateTable(database, keys, 'cells');
  const idempotency_answers = await rotateTable(database, keys, 'idempotency_answers');
  const counts = {
    webhook_secrets: webhook_secrets.count,
    verify_tokens: verify_tokens.count,
    cells: cells.count,
    idempotency_answers: idempotency_answers.count,
  };
  const names = { current_key: current!.toString('hex'), previous_key: previous?.toString('hex') ?? null };
  await database.transaction((query) =>
    record(query, actor, {
      action: 'secrets_key.rotate',
      target: { kind: 'secrets_key', id: null, name: names.current_key },
      after: { ...names, ...counts },
    }),
  );
  const replaced_seconds = (previous && (await readReplacedSeconds(database, previous))) ?? null;
  const previous_key_in_use = !(
    webhook_secrets.settled &&
    verify_tokens.settled &&
    cells.settled &&
    idempotency_answers.settled
  );
  return { kind: 'done', rotation: { ...names, counts, previous_key_in_use, replaced_seconds } };
}

/** Records the current key in the database. If it replaces another key, also writes an audit entry and resolves with true. */
export function recordCurrentKey(
  database: Database,
  keys: SecretsKeys,
  actor: Actor,
  { again } = { again: false },
): Promise<boolean> {
  const [current, previous = null] = keys.map(fingerprintOf);
  return database.transaction(async (query) => {
    const change = await recordKeys(query, current!, previous, { again });
    if (change.kind !== 'replaced') return false;
    await record(query, actor, {
      action: 'secrets_key.replace',
      target: { kind: 'secrets_key', id: null, name: current!.toString('hex') },
      before: { fingerprints: change.before.map((fingerprint) => fingerprint.toString('hex')) },
    });
    return true;
  });
}

/** `settled`: the last pass found no row under the previous key. */
async function rotateTable(
  database: Database,
  keys: SecretsKeys,
  name: TableName,
): Promise<{ count: RotationCount; settled: boolean }> {
  let already: number | null = null;
  let reencrypted = 0;
  for (let pass = 1; ; pass++) {
    const found = await runPass(database, keys, name);
    already ??= found.current;
    reencrypted += found.previous;
    if (found.previous > 0 && pass < PASSES_MAX) continue;
    const stored = found.current + found.previous + found.unreadable;
    const count = { stored, reencrypted, already_current: already, unreadable: found.unreadable };
    return { count, settled: found.previous === 0 };
  }
}

/** Processes every row once. */
async function runPass(
  database: Database,
  keys: SecretsKeys,
  name: TableName,
): Promise<{ current: number; previous: number; unreadable: number }> {
  const table = sealedTables[name];
  const derived = derivedKeys(keys, table.purpose);
  const found = { current: 0, previous: 0, unreadable: 0 };
  let after: { id: string; part: string } | undefined = beforeFirst;
  while (after !== undefined) {
    const from: { id: string; part: string } = after;
    after = await database.transaction(async (query) => {
      const rows = await lockSealedRows(query, table, from, BATCH_ROWS);
      const changed: SealedRow[] = [];
      for (const row of rows) {
        const opened = unsealBy(row.sealed, derived, table.context(row));
        found[opened === null ? 'unreadable' : opened.keyIndex === 0 ? 'current' : 'previous'] += 1;
        if (opened !== null && opened.keyIndex > 0)
          changed.push({ ...row, sealed: seal(opened.plain, derived[0]!, table.context(row)) });
      }
      if (changed.length > 0) await updateSealedRows(query, table, changed);
      return rows.length < BATCH_ROWS ? undefined : rows.at(-1);
    });
  }
  return found;
}
