/** Re-encrypts everything sealed under SECRETS_KEY_PREVIOUS, also while Weir serves with both keys. A killed run can be repeated. */
import { type Actor, record } from '../audit/record.ts';
import type { Database, Query } from '../connect/pool.ts';
import {
  derivedKeys,
  isServerConnected,
  readReplacedSeconds,
  recordKeys,
  type SecretsKeys,
  wasKeyUsed,
} from './keys.ts';
import { fingerprintOf, type KeyPurpose, seal, unsealBy, verifyTokenContext } from './seal.ts';

type TableName = keyof typeof sealedTables;

/** Rows per transaction. Their locks are held for about 10 ms. */
const BATCH_ROWS = 200;
/** Maximum passes. Another pass finds rows that a process with the previous key sealed during the pass before. */
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
  const counts = {} as KeyRotation['counts'];
  let previous_key_in_use = false;
  for (const name of Object.keys(sealedTables) as TableName[]) {
    const { isDone, ...count } = await rotateTable(database, keys, name);
    counts[name] = count;
    previous_key_in_use ||= !isDone;
  }
  const names = { current_key: current!.toString('hex'), previous_key: previous?.toString('hex') ?? null };
  await database.transaction((query) =>
    record(query, actor, {
      action: 'secrets_key.rotate',
      target: { kind: 'secrets_key', id: null, name: names.current_key },
      after: { ...names, ...counts },
    }),
  );
  const replaced_seconds = (previous && (await readReplacedSeconds(database, previous))) ?? null;
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
    const replaced = await recordKeys(query, current!, previous, { again });
    if (replaced.length === 0) return false;
    await record(query, actor, {
      action: 'secrets_key.replace',
      target: { kind: 'secrets_key', id: null, name: current!.toString('hex') },
      before: { fingerprints: replaced.map((fingerprint) => fingerprint.toString('hex')) },
    });
    return true;
  });
}

/** `isDone`: the last pass found no row under the previous key. */
async function rotateTable(
  database: Database,
  keys: SecretsKeys,
  name: TableName,
): Promise<RotationCount & { isDone: boolean }> {
  let already: number | null = null;
  let reencrypted = 0;
  for (let pass = 1; ; pass++) {
    const found = await runPass(database, keys, name);
    already ??= found.current;
    reencrypted += found.previous;
    if (found.previous > 0 && pass < PASSES_MAX) continue;
    const stored = found.current + found.previous + found.unreadable;
    const { unreadable, previous } = found;
    return { stored, reencrypted, already_current: already, unreadable, isDone: previous === 0 };
  }
}

async function runPass(
  database: Database,
  keys: SecretsKeys,
  name: TableName,
): Promise<{ current: number; previous: number; unreadable: number }> {
  const table = sealedTables[name];
  const derived = derivedKeys(keys, table.purpose);
  const found = { current: 0, previous: 0, unreadable: 0 };
  for (let after = beforeFirst; ; ) {
    const rows = await database.transaction(async (query) => {
      const sealed = await lockSealedRows(query, table, after, BATCH_ROWS);
      const read = sealed.map((row) => ({ ...row, opened: unsealBy(row.sealed, derived, table.context(row)) }));
      const changed = read.flatMap(({ opened, ...row }) =>
        opened !== null && opened.keyIndex > 0
          ? { ...row, sealed: seal(opened.plain, derived[0]!, table.context(row)) }
          : [],
      );
      if (changed.length > 0) await updateSealedRows(query, table, changed);
      return read;
    });
    for (const { opened } of rows)
      found[opened === null ? 'unreadable' : opened.keyIndex === 0 ? 'current' : 'previous']++;
    if (rows.length < BATCH_ROWS) return found;
    after = rows.at(-1)!;
  }
}

interface SealedTable {
  purpose: KeyPurpose;
  name: string;
  /** The primary key: a uuid and a text. */
  key: readonly [string, string];
  column: string;
  /** Context that the ciphertext is bound to, see `seal`. */
  context: (row: SealedRow) => string;
}

interface SealedRow {
  id: string;
  part: string;
  sealed: Buffer;
}

export const sealedTables = {
  webhook_secrets: {
    purpose: 'webhook-secrets',
    name: 'webhook_secrets',
    key: ['webhook_id', 'slot'],
    column: 'sealed',
    context: ({ id }) => id,
  },
  verify_tokens: {
    purpose: 'webhook-secrets',
    name: 'webhooks',
    key: ['id', 'name'],
    column: 'verify_token',
    context: ({ id }) => verifyTokenContext(id),
  },
  cells: {
    purpose: 'cells',
    name: 'cells',
    key: ['id', 'name'],
    column: 'sealed',
    context: ({ id }) => id,
  },
  idempotency_answers: {
    purpose: 'idempotency',
    name: 'idempotency_keys',
    key: ['user_id', 'key'],
    column: 'answer',
    context: ({ id, part }) => `${id} ${part}`,
  },
} as const satisfies Record<string, SealedTable>;

/** Sorts before every row. */
const beforeFirst = { id: '00000000-0000-0000-0000-000000000000', part: '' };

/**
 * Reads the next rows in primary key order and locks them. Secrets are locked in that order everywhere (lockWebhook), which prevents
 * deadlocks.
 */
function lockSealedRows(
  query: Query,
  { name, key: [id, part], column }: SealedTable,
  after: { id: string; part: string },
  rowsMax: number,
): Promise<SealedRow[]> {
  return query<SealedRow>({
    text: `
      select ${id} as id, ${part} as part, ${column} as sealed from ${name}
      where (${id}, ${part}) > ($1, $2) and ${column} is not null
      order by ${id}, ${part} limit $3 for no key update`,
    values: [after.id, after.part, rowsMax],
  });
}

async function updateSealedRows(
  query: Query,
  { name, key: [id, part], column }: SealedTable,
  rows: readonly SealedRow[],
): Promise<void> {
  const given = rows.map(({ sealed, ...row }) => ({ ...row, sealed: sealed.toString('hex') }));
  await query({
    text: `
      update ${name} t set ${column} = decode(n.sealed, 'hex')
      from jsonb_to_recordset($1::jsonb) as n (id uuid, part text, sealed text)
      where t.${id} = n.id and t.${part} = n.part`,
    values: [JSON.stringify(given)],
  });
}
