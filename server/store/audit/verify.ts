/** Verifies the audit log: recomputes every hash from the first entry and reports where a row was changed outside Weir. */
import type { z } from 'zod';
import type { auditVerdictSchema } from '../../model/audit.ts';
import type { Database } from '../connect/pool.ts';
import { chainHash, NO_HASH } from './record.ts';

type AuditVerdict = z.output<typeof auditVerdictSchema>;

const PAGE_ENTRIES = 500;

/**
 * Reads every entry once, a page at a time. Rejects with DatabaseUnavailable.
 * @param knownHead hex hash of an entry that was once the head; the chain must contain it. Only this detects a truncated chain or
 * one recomputed as a whole.
 */
export function verifyAudit(database: Database, knownHead: string | null): Promise<AuditVerdict> {
  return walk(database, { number: 0, hash: NO_HASH }, knownHead);
}

/** Verifies only the newest `entries`, up to the head's number. The entry before them is trusted. */
export async function verifyRecentAudit(
  database: Database,
  headNumber: number,
  entries: number,
): Promise<AuditVerdict> {
  const start = headNumber - entries;
  if (start <= 0) return verifyAudit(database, null);
  const [before] = await readChain(database, start - 1, 1);
  return walk(database, { number: start, hash: before?.hash ?? NO_HASH }, null);
}

async function walk(
  database: Database,
  start: { number: number; hash: Buffer },
  knownHead: string | null,
): Promise<AuditVerdict> {
  let { number, hash } = start;
  let passedHead = knownHead === null;
  const upTo = () => ({ entries: number, head: number === 0 ? null : { number, hash: hash.toString('hex') } });
  const broken = (what: string): AuditVerdict => {
    const first_broken = number + 1;
    return { intact: false, ...upTo(), first_broken, reason: `Entry ${first_broken} ${what}` };
  };
  for (;;) {
    const rows = await readChain(database, number, PAGE_ENTRIES);
    for (const row of rows) {
      if (Number(row.number) !== number + 1) return broken('is missing.');
      if (!row.previousHash.equals(hash))
        return broken('does not follow from the previous entry: one of them was replaced.');
      if (!row.hash.equals(chainHash(row.previousHash, row.text)))
        return broken('was changed: its hash does not match.');
      number++;
      hash = row.hash;
      passedHead ||= hash.toString('hex') === knownHead;
    }
    if (rows.length < PAGE_ENTRIES) break;
  }
  if (passedHead) return { intact: true, ...upTo() };
  const reason = 'The chain does not contain the given head: its end was removed, or all of it was rewritten.';
  return { intact: false, ...upTo(), reason };
}

interface ChainRow {
  number: string;
  /** The exact JSON text that was hashed. */
  text: string;
  hash: Buffer;
  previousHash: Buffer;
}

/** Reads entries after number `after`, oldest first. */
function readChain(database: Database, after: number, limit: number): Promise<ChainRow[]> {
  return database.query<ChainRow>({
    text: `
      select number::text, entry::text as text, hash, previous_hash as "previousHash"
      from audit_log
      where audit_log.number > $1
      order by audit_log.number
      limit $2`,
    values: [after, limit],
  });
}
