/** Verifies the audit log: recomputes every hash from the first entry and reports where a row was changed outside Weir. */
import type { Database } from '../connect/pool.ts';
import { readChain } from '../queries/users/audit.ts';
import { chainHash, NO_HASH } from './record.ts';

interface AuditVerdict {
  intact: boolean;
  /** Number of the last valid entry. */
  entries: number;
  /** The last valid entry; its hash covers all entries up to it. Null: no valid entry. */
  head: { number: number; hash: string } | null;
  /** Number of the first entry that is missing, changed, or not the successor of the previous one. */
  first_broken?: number;
  reason?: string;
}

/** Entries in memory at a time. */
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
  const verdict = (broken?: { number?: number; reason: string }): AuditVerdict => ({
    intact: broken === undefined,
    entries: number,
    head: number === 0 ? null : { number, hash: hash.toString('hex') },
    ...(broken?.number === undefined ? {} : { first_broken: broken.number }),
    ...(broken === undefined ? {} : { reason: broken.reason }),
  });

  for (;;) {
    const rows = await readChain(database, number, PAGE_ENTRIES);
    for (const row of rows) {
      const expected = number + 1;
      if (Number(row.number) !== expected)
        return verdict({ number: expected, reason: `Entry ${expected} is missing.` });
      if (!row.previousHash.equals(hash))
        return verdict({
          number: expected,
          reason: `Entry ${expected} does not follow from the previous entry: one of them was replaced.`,
        });
      if (!row.hash.equals(chainHash(row.previousHash, row.text)))
        return verdict({ number: expected, reason: `Entry ${expected} was changed: its hash does not match.` });
      number = expected;
      hash = row.hash;
      passedHead ||= hash.toString('hex') === knownHead;
    }
    if (rows.length < PAGE_ENTRIES) break;
  }
  if (passedHead) return verdict();
  return verdict({
    reason: 'The chain does not contain the given head: its end was removed, or all of it was rewritten.',
  });
}
