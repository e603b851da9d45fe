/** The audit log. */
import { advisoryLocks } from '../../advisory-locks.ts';
import type { Database, Query } from '../../connect/pool.ts';

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

/** An entry as it is stored. */
export interface AuditRow {
  /** Entry number, as text. */
  id: string;
  /** Parsed JSON, as `record` wrote it unless the row was changed outside Weir. */
  entry: unknown;
  hash: Buffer;
}

export interface AuditFilter {
  /** Prefix of the action, e.g. `token.`. */
  action: string | null;
  /** Entries with the prefix are left out, instead of the others. */
  isLeftOut: boolean;
  actorId: string | null;
  targetId: string | null;
  /** ISO 8601 in UTC, inclusive. */
  from: string | null;
  /** ISO 8601 in UTC, exclusive. */
  to: string | null;
}

/** Lists entries, newest first. `before`: number of the last entry of the previous page. Planned per call, for the given filters. */
export function listAudit(
  database: Database,
  { action, isLeftOut, actorId, targetId, from, to }: AuditFilter,
  before: string | null,
  limit: number,
): Promise<AuditRow[]> {
  return database.query<AuditRow>({
    text: `
      select number::text as id, entry, hash
      from audit_log
      where ($1::text is null or ${isLeftOut ? 'not' : ''} (action collate "C") ^@ $1)
        and ($2::text is null or actor_id = $2) and ($3::text is null or target_id = $3)
        and ($4::text is null or at >= $4) and ($5::text is null or at < $5)
        and ($6::bigint is null or number < $6)
      order by number desc
      limit $7`,
    values: [action, actorId, targetId, from, to, before, limit],
  });
}

interface ChainRow {
  number: string;
  /** The exact JSON text that was hashed. */
  text: string;
  hash: Buffer;
  previousHash: Buffer;
}

/** Reads entries after number `after`, oldest first. */
export function readChain(database: Database, after: number, limit: number): Promise<ChainRow[]> {
  return database.query<ChainRow>({
    name: 'read-audit-chain',
    text: `
      select number::text, entry::text as text, hash, previous_hash as "previousHash"
      from audit_log
      where audit_log.number > $1
      order by audit_log.number
      limit $2`,
    values: [after, limit],
  });
}

/** Reads the newest entry; undefined when the log is empty. */
export async function readAuditHead(database: Database): Promise<{ number: number; hash: string } | undefined> {
  const [head] = await database.query<{ number: string; hash: Buffer }>({
    text: 'select number::text, hash from audit_log order by audit_log.number desc limit 1',
  });
  return head && { number: Number(head.number), hash: head.hash.toString('hex') };
}
