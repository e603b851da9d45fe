/**
 * Re-encrypts all that is sealed under SECRETS_KEY_PREVIOUS under SECRETS_KEY. Runs beside a serving Weir that has both keys; each batch is
 * a transaction, and a row that is under the current key already is passed over, so that a run that was killed is simply run again.
 */
import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import type { Database } from '../db/pool.ts';
import {
  beforeFirst,
  lockSealedRows,
  type SealedRow,
  sealedTables,
  updateSealedRows,
} from '../db/queries/sealed-rows.ts';
import { isServed, readReplacedSeconds, recordKeys, wasKeyUsed } from '../db/queries/secrets-keys.ts';
import { derivedKeys, type SecretsKeys } from './keys.ts';
import { fingerprintOf, seal, unsealBy } from './seal.ts';

type TableName = keyof typeof sealedTables;

/** Rows of one transaction: their locks are held for some 10 ms. */
const BATCH_ROWS = 200;
/** What a process that was not restarted yet seals under the previous key meanwhile is met by the next pass. */
const PASSES_MAX = 5;

export interface RotationCount {
  /** Rows that hold a ciphertext, after the rotation. */
  stored: number;
  /** Re-encrypted by this run. */
  reencrypted: number;
  /** Were under the current key before. */
  already_current: number;
  /** Open with no key that is given. */
  unreadable: number;
}

export interface Rotation {
  /** Fingerprints, in hex. */
  current_key: string;
  previous_key: string | null;
  counts: Record<TableName, RotationCount>;
  /** Rows were still sealed under the previous key while this ran: a process has not been restarted with the new one. */
  previous_key_in_use: boolean;
  /** When the previous key was replaced, in seconds before now; null: it is unknown, or there is none. */
  replaced_seconds: number | null;
}

/** `not_started`: serving processes run that do not have the current key; what is sealed under it would be lost to them. */
type RotationOutcome = { kind: 'done'; rotation: Rotation } | { kind: 'not_started' };

/** Rejects with DatabaseUnavailable; what was done until then stays done. */
export async function rotateKeys(database: Database, keys: SecretsKeys, actor: Actor): Promise<RotationOutcome> {
  const [current, previous] = keys.map(fingerprintOf);
  if (!(await wasKeyUsed(database, current!)) && (await isServed(database))) return { kind: 'not_started' };
  await noteKeys(database, keys, actor, { again: true });
  const webhook_secrets = await rotateTable(database, keys, 'webhook_secrets');
  const idempotency_answers = await rotateTable(database, keys, 'idempotency_answers');
  const counts = { webhook_secrets: webhook_secrets.count, idempotency_answers: idempotency_answers.count };
  const names = { current_key: current!.toString('hex'), previous_key: previous?.toString('hex') ?? null };
  await database.transaction((query) =>
    record(query, actor, {
      action: 'secrets_key.rotate',
      target: { kind: 'secrets_key', id: null, name: names.current_key },
      after: { ...names, ...counts },
    }),
  );
  const replaced_seconds = (previous && (await readReplacedSeconds(database, previous))) ?? null;
  const previous_key_in_use = !(webhook_secrets.settled && idempotency_answers.settled);
  return { kind: 'done', rotation: { ...names, counts, previous_key_in_use, replaced_seconds } };
}

/** Records which key is the current one, and in the audit log when it replaces another. */
export function noteKeys(
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

/** `settled`: the last pass met no row under the previous key. */
async function rotateTable(
  database: Database,
  keys: SecretsKeys,
  name: TableName,
): Promise<{ count: RotationCount; settled: boolean }> {
  let already: number | null = null;
  let reencrypted = 0;
  for (let pass = 1; ; pass++) {
    const met = await passOver(database, keys, name);
    already ??= met.current;
    reencrypted += met.previous;
    if (met.previous > 0 && pass < PASSES_MAX) continue;
    const stored = met.current + met.previous + met.unreadable;
    const count = { stored, reencrypted, already_current: already, unreadable: met.unreadable };
    return { count, settled: met.previous === 0 };
  }
}

/** Every row once. */
async function passOver(
  database: Database,
  keys: SecretsKeys,
  name: TableName,
): Promise<{ current: number; previous: number; unreadable: number }> {
  const table = sealedTables[name];
  const derived = derivedKeys(keys, table.purpose);
  const met = { current: 0, previous: 0, unreadable: 0 };
  let after: { id: string; part: string } | undefined = beforeFirst;
  while (after !== undefined) {
    const from: { id: string; part: string } = after;
    after = await database.transaction(async (query) => {
      const rows = await lockSealedRows(query, table, from, BATCH_ROWS);
      const changed: SealedRow[] = [];
      for (const row of rows) {
        const opened = unsealBy(row.sealed, derived, table.context(row));
        met[opened === null ? 'unreadable' : opened.place === 0 ? 'current' : 'previous'] += 1;
        if (opened !== null && opened.place > 0)
          changed.push({ ...row, sealed: seal(opened.plain, derived[0]!, table.context(row)) });
      }
      if (changed.length > 0) await updateSealedRows(query, table, changed);
      return rows.length < BATCH_ROWS ? undefined : rows.at(-1);
    });
  }
  return met;
}
