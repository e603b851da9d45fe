/** The audit log. */
import type { Database, Queries } from '../../connect/pool.ts';

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

/** Reads the newest entry; undefined when the log is empty. */
export async function readAuditHead({ query }: Queries): Promise<{ number: number; hash: string } | undefined> {
  const [head] = await query<{ number: string; hash: Buffer }>({
    text: 'select number::text, hash from audit_log order by audit_log.number desc limit 1',
  });
  return head && { number: Number(head.number), hash: head.hash.toString('hex') };
}
