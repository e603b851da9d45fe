/**
 * Tests whether an event could be committed now, without storing anything: a row of each table is inserted in a subtransaction that is rolled
 * back. The outer transaction has an id, so its commit is flushed. The probe therefore fails for every cause that makes a COPY fail: a
 * read-only session, a missing partition, a lock, the trigger, a full disk, a commit that does not complete. It takes 2.1 ms, at most once in
 * 5 seconds while nothing is committed (bench/NOTES.md).
 */
import type { Queries } from './connect/pool.ts';

export interface CommitFailure {
  /** Null: the server did not answer in time, or the connection is lost. */
  sqlState: string | null;
  /** Message of the server or of libpq. */
  reason: string;
}

/** Body of the row: one Postgres page, so that the row does not fit into the free space of the last page. */
const PROBE_BYTES = 8_192;
/** Prevents a probe that waits for a lock from staying on the server after its caller has left. */
const LOCK_TIMEOUT_MS = 700;

/** Rejects like the commit of an event that arrives at `receivedAtMs` (Unix milliseconds). @param timeoutMs default: that of a query */
export async function probeCommit(database: Queries, receivedAtMs: number, timeoutMs?: number): Promise<void> {
  const at = `'${new Date(receivedAtMs).toISOString()}'`;
  const nilId = `'00000000-0000-0000-0000-000000000000'`;
  await database.query({
    text: `
      do $probe$
      begin
        perform set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true);
        begin
          insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
          values (gen_random_uuid(), ${nilId}, ${at}, '127.0.0.1', '', decode(repeat('00', ${PROBE_BYTES}), 'hex'), ${PROBE_BYTES});
          insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
          values (gen_random_uuid(), ${nilId}, ${nilId}, ${nilId}, ${at}, 0, 'done', now());
          raise sqlstate 'WR000' using message = 'undo the probe';
        exception when sqlstate 'WR000' then null;
        end;
      end
      $probe$`,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
}
