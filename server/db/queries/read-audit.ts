import type { Database } from '../pool.ts';

/** An entry as it is stored. */
export interface AuditRow {
  /** The number, as text. */
  id: string;
  /** Parsed; what `record` wrote, unless somebody wrote past it. */
  entry: unknown;
  hash: Buffer;
}

export interface AuditFilter {
  /** What the action begins with, e.g. `token.`. */
  action: string | null;
  actorId: string | null;
  targetId: string | null;
  /** From this time on, ISO 8601 in UTC. */
  from: string | null;
  /** Before this time. */
  to: string | null;
}

/** Newest first; `before` is the number of the last entry of the page before. Planned for the filters that are given. */
export function listAudit(
  database: Database,
  { action, actorId, targetId, from, to }: AuditFilter,
  before: string | null,
  limit: number,
): Promise<AuditRow[]> {
  return database.query<AuditRow>({
    text: `
      select number::text as id, entry, hash
      from audit_log
      where ($1::text is null or (action collate "C") ^@ $1)
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
  /** The JSON text exactly as it was hashed. */
  text: string;
  hash: Buffer;
  previousHash: Buffer;
}

/** Entries after `after`, oldest first. */
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

/** The newest entry; undefined when there is none. */
export async function readAuditHead(database: Database): Promise<{ number: number; hash: string } | undefined> {
  const [head] = await database.query<{ number: string; hash: Buffer }>({
    text: 'select number::text, hash from audit_log order by audit_log.number desc limit 1',
  });
  return head && { number: Number(head.number), hash: head.hash.toString('hex') };
}
