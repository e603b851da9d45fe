import { advisoryLocks } from '../advisory-locks.ts';
import type { Query } from '../pool.ts';

/** Locks the head of the audit log until the transaction ends. Returns the newest entry; undefined when the log is empty. */
export async function lockAuditHead(query: Query): Promise<{ number: number; hash: Buffer } | undefined> {
  await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.audit] });
  const [head] = await query<{ number: string; hash: Buffer }>({
    text: 'select number::text, hash from audit_log order by audit_log.number desc limit 1',
  });
  return head && { number: Number(head.number), hash: head.hash };
}

export async function insertAuditEntry(
  query: Query,
  { number, entry, hash, previousHash }: { number: number; entry: string; hash: Buffer; previousHash: Buffer },
): Promise<void> {
  await query({
    text: 'insert into audit_log (number, entry, hash, previous_hash) values ($1, $2, $3, $4)',
    values: [number, entry, hash, previousHash],
  });
}
