/** Rows sealed under a key derived from SECRETS_KEY: everything that a key rotation must reseal. */
import type { Query } from '../../connect/pool.ts';

interface SealedTable {
  /** A KeyPurpose of store/secrets/seal.ts. */
  purpose: 'webhook-secrets' | 'cells' | 'idempotency';
  name: string;
  /** The primary key: a uuid and a text. */
  key: readonly [string, string];
  column: string;
  /** Context that the ciphertext is bound to, see `seal`. */
  context: (row: SealedRow) => string;
}

export interface SealedRow {
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

/** Context of a webhook's verify token, so that it cannot be exchanged for a secret of the webhook. */
export function verifyTokenContext(webhookId: string): string {
  return `${webhookId} verify_token`;
}

/** Sorts before every row. */
export const beforeFirst = { id: '00000000-0000-0000-0000-000000000000', part: '' };

/**
 * Reads the next rows in primary key order and locks them until the transaction ends. Secrets are locked in that order everywhere
 * (lockWebhook), which prevents deadlocks.
 */
export function lockSealedRows(
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

/** Replaces the ciphertexts of the rows in one statement. */
export async function updateSealedRows(
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
