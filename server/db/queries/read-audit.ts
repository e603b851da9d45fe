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
