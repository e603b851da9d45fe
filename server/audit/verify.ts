/** Walks the audit log from its first entry and computes every hash anew: says where somebody wrote past Weir. */
import type { Database } from '../db/pool.ts';
import { readChain } from '../db/queries/read-audit.ts';
import { chainHash, NO_HASH } from './record.ts';

interface AuditVerdict {
  intact: boolean;
  /** How far the chain holds. */
  entries: number;
  /** The last entry that holds; its hash stands for all up to it. Null: there is none. */
  head: { number: number; hash: string } | null;
  /** Number of the first entry that is missing, changed, or no successor of the one before. */
  first_broken?: number;
  reason?: string;
}

/** Entries in memory at a time. */
const PAGE_ENTRIES = 500;

/**
 * Reads every entry once, a page at a time. Rejects with DatabaseUnavailable.
 * @param knownHead hash in hex of an entry that was once the head: the chain must contain it. Entries cut off at the end, and
 * a chain that was computed anew as a whole, can be told by that alone.
 */
export function verifyAudit(database: Database, knownHead: string | null): Promise<AuditVerdict> {
  return walk(database, { number: 0, hash: NO_HASH }, knownHead);
}

/** The same for the newest `entries` alone, up to the head's number: what they follow from is believed. */
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
          reason: `Entry ${expected} does not follow from the one before: one of them was replaced.`,
        });
      if (!row.hash.equals(chainHash(row.previousHash, row.text)))
        return verdict({ number: expected, reason: `Entry ${expected} was changed: its hash is another.` });
      number = expected;
      hash = row.hash;
      passedHead ||= hash.toString('hex') === knownHead;
    }
    if (rows.length < PAGE_ENTRIES) break;
  }
  if (passedHead) return verdict();
  return verdict({
    reason: 'The chain does not contain the given head: its end was cut off, or all of it was written anew.',
  });
}
