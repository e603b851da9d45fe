/** Rows of `events` as Weir makes them, and a COPY of them without Weir. */
import { randomBytes } from 'node:crypto';
import { CommandError } from '../../server/base/command/io.ts';
import { inetBytes } from '../../server/model/address.ts';
import type { CopyConnection } from '../../server/store/copy/connection.ts';
import { CopyEncoder, copyEventsSql, type EventRow } from '../../server/store/copy/rows.ts';
import { uuidv7 } from '../../server/store/ids.ts';

export const ADDRESS = '192.0.2.1';
const HEADERS = Buffer.from(
  'content-type: application/json\nuser-agent: GitHub-Hookshot/044aadd\nx-github-event: push\naccept: */*',
);

/** Commits the rows; resolves when they are on disk. */
export type Commit = (rows: readonly EventRow[]) => Promise<void>;

/** Commits by binary COPY, with the encoder of the server. Rejects with CommandError. */
export function copyCommit(connection: CopyConnection): Commit {
  const encoder = new CopyEncoder();
  return async (rows) => {
    const outcome = await connection.copyIn(copyEventsSql, encoder.encode(rows));
    if (outcome.kind !== 'committed') throw new CommandError(`COPY ended as ${outcome.kind}: ${outcome.message}`);
  };
}

/** Rows of one webhook with random bodies. Their ids and times are not set, see withNewIds. */
export function randomRows(count: number, bodyBytes: number): EventRow[] {
  const webhookId = randomBytes(16);
  const sourceIp = inetBytes(ADDRESS);
  return Array.from({ length: count }, () => ({
    id: randomBytes(16),
    webhookId,
    receivedAtMs: 0,
    sourceIp,
    headers: HEADERS,
    contentType: 'application/json',
    eventType: 'push',
    body: randomBytes(bodyBytes),
    key: null,
  }));
}

/** Assigns new, rising keys, as events have. */
export function withNewIds(rows: readonly EventRow[]): EventRow[] {
  const nowMs = Date.now();
  return rows.map((row) => ({ ...row, id: uuidv7(nowMs, randomBytes(16)), receivedAtMs: nowMs }));
}
