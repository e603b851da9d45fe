/**
 * Moves a webhook to another cell. New events go there, older ones stay where they are until retention removes them.
 *
 * A repeated request must be known at every moment, so the deduplication keys move first:
 *
 *     1. copy the keys that there are           the webhook is at `from`
 *     2. webhooks.cell = `to`, moving_from      neither cell stores an event with a key (503 or spool); events without one go to `to`
 *     3. wait for the statements that began before, copy the keys of events since 1
 *     4. moving_from = null                     the webhook is at `to`
 *
 * The statement that stores an event with its key reads the webhook's row itself (queries/events/store-deduped.ts), so a process that was
 * frozen does not store at `from` after 3, and the drain of a spool reads it too. What is interrupted before 2 has changed nothing; between
 * 2 and 4 it is finished by any primary, or put back by a move to `from`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Database, Queries, Query } from '../connect/pool.ts';
import { DatabaseUnavailable, expected } from '../connect/unavailable.ts';
import { CLOCKS_APART_MS, uuidAt } from '../ids.ts';
import { endMove, type Move, readMoves } from '../queries/cells/webhook-moves.ts';
import { isoText } from '../sql.ts';
import type { Cell } from './cell.ts';
import type { Cells } from './cells.ts';
import { copyTo } from './copy.ts';

const CHECK_EVERY_MS = 20;
/** A statement of a serving process takes 10 s at most, see pool.ts. */
const WAIT_MS = 15_000;

/** Which keys step 3 copies. */
interface Since {
  /** When the copy of the keys began, Unix milliseconds. */
  ms: number;
  /** RETENTION_DAYS */
  retentionDays: number;
}

/** Step 1. Copies the keys of a webhook. @param since only those that were stored since then; null: all */
export async function copyKeys(from: Cell, to: Cell, webhookId: string, since: Since | null): Promise<void> {
  for (let after = ''; ; ) {
    const keys = await readKeys(from.database, webhookId, after, since);
    if (keys.length > 0) await to.database.transaction((query) => writeKeys(query, webhookId, keys));
    if (keys.length < AT_A_TIME) return;
    after = keys.at(-1)!.key;
  }
}

/**
 * Runs steps 3 and 4 of unfinished moves: of all, or of one webhook. When a database does not answer, finishes the other moves and then
 * rejects; a later call finishes the rest.
 * @param retentionDays RETENTION_DAYS
 */
export async function finishMoves(cells: Cells, retentionDays: number, webhookId?: string): Promise<void> {
  const home = cells.numbered(0).database;
  const moves = (await readMoves(home)).filter(({ id }) => webhookId === undefined || id === webhookId);
  const ends = await Promise.allSettled(moves.map((move) => finishMove(cells, home, move, retentionDays)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function finishMove(cells: Cells, home: Database, move: Move, retentionDays: number): Promise<void> {
  const { id, from, to, sinceMs } = move;
  const [source, target] = [cells.numbered(from), cells.numbered(to)];
  for (const cell of [source, target]) if (cell.number !== 0) await copyTo(cell, home);
  const moment = await readMoment(source.database);
  for (const endMs = performance.now() + WAIT_MS; await hasOlderTransactions(source.database, moment); ) {
    if (performance.now() > endMs)
      throw new DatabaseUnavailable(new Error(`a transaction in cell ${from} does not end`));
    await delay(CHECK_EVERY_MS);
  }
  await copyKeys(source, target, id, { ms: sinceMs, retentionDays });
  await endMove(home, move);
  if (target.number !== 0) await copyTo(target, home);
}

const AT_A_TIME = 10_000;

const keysSchema = z.array(
  z.object({ key: z.hex().describe('in hex'), event_id: z.guid(), expires_at: z.iso.datetime() }),
);
type DedupeKey = z.output<typeof keysSchema>[number];

/**
 * Reads keys of a webhook that are not expired, in the order of the keys. With `since`, a key is new by the time in the id of its event, or by
 * its expiry: an event of a spool has an old id, because it is stored long after it was received.
 * @param after the last key of the previous part, in hex; '': from the first
 */
async function readKeys(
  { query }: Queries,
  webhookId: string,
  after: string,
  since: Since | null,
): Promise<DedupeKey[]> {
  const fromMs = (since?.ms ?? 0) - CLOCKS_APART_MS;
  const isNew = `and (event_id >= $3 or expires_at >= $4::timestamptz + make_interval(
                   days => least($5::int, (select retention_days from webhooks where id = $1))))`;
  const rows = await query<DedupeKey>({
    text: `
      select encode(key, 'hex') as key, event_id, ${isoText('expires_at')} as expires_at from dedupe_keys
      where webhook_id = $1 and key > decode($2, 'hex') and expires_at > now() ${since === null ? '' : isNew}
      order by key limit ${AT_A_TIME}`,
    values: [
      webhookId,
      after,
      ...(since === null ? [] : [uuidAt(fromMs), new Date(fromMs).toISOString(), since.retentionDays]),
    ],
  });
  return expected(keysSchema, rows);
}

/** Stores keys of a webhook. A key that the cell has, and that is not expired, stays unchanged. */
async function writeKeys(query: Query, webhookId: string, keys: readonly DedupeKey[]): Promise<void> {
  await query({
    text: `
      insert into dedupe_keys as known (webhook_id, key, event_id, expires_at)
      select $1, decode(key, 'hex'), event_id, expires_at
      from json_to_recordset($2) k (key text, event_id uuid, expires_at timestamptz) order by key
      on conflict (webhook_id, key) do update set event_id = excluded.event_id, expires_at = excluded.expires_at
      where known.expires_at <= now()`,
    values: [webhookId, JSON.stringify(keys)],
  });
}

/** The clock of a cell, as Postgres prints it. */
async function readMoment({ query }: Queries): Promise<string> {
  const [row] = await query<{ at: string }>({ text: 'select clock_timestamp()::text as at' });
  return row!.at;
}

/** Whether a transaction that stores events began before a moment: it may not see what was committed by then. */
async function hasOlderTransactions({ query }: Queries, moment: string): Promise<boolean> {
  const [row] = await query<{ any: boolean }>({
    text: `
      select exists (
        select from pg_stat_activity
        where datname = current_database() and application_name in ('weir', 'weir-spool') and pid <> pg_backend_pid() and xact_start <= $1::timestamptz
      ) as any`,
    values: [moment],
  });
  return row!.any;
}
