/** Events for the tests of the spool. */
import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import { inetBytes } from '../../../server/model/address.ts';
import { dedupeKey } from '../../../server/receive/ingest/store.ts';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { SpoolStore } from '../../../server/receive/spool/store.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { uuidBytes, uuidText, uuidv7 } from '../../../server/store/ids.ts';

export const webhookId = uuidv7(Date.now(), randomBytes(16));

/** An event of now. */
export function newRow(given: Partial<EventRow> = {}): EventRow {
  const receivedAtMs = given.receivedAtMs ?? Date.now();
  const id = uuidv7(receivedAtMs, randomBytes(16));
  return {
    id,
    webhookId,
    receivedAtMs,
    sourceIp: inetBytes('192.0.2.1'),
    headers: Buffer.from('a: b'),
    contentType: null,
    eventType: null,
    body: Buffer.from(`{"id":"${uuidText(id)}"}`),
    orderKeys: null,
    key: null,
    ...given,
  };
}

export const idOf = ({ id }: EventRow) => uuidText(id);

/** Stores the events of a drain at home. */
export function openSpoolStore({ conninfo, database }: { conninfo: string; database: Database }): SpoolStore {
  return new SpoolStore(
    { number: 0, away: null, conninfo, tables: database },
    () => 30,
    async () => new Map(),
  );
}

/** Ids of the stored events, each as often as it is stored. */
export async function storedIds(database: Database): Promise<string[]> {
  const rows = await database.query<{ id: string }>({ text: 'select id::text from events order by id' });
  return rows.map(({ id }) => id);
}

/** Spools an event of a webhook, as a process does that knows it in this cell. Returns its id. */
export async function spoolEvent(folder: string, webhook: string, cell: number, key?: string): Promise<string> {
  const receivedAtMs = Date.now();
  const random = crypto.getRandomValues(new Uint8Array(16));
  const row = newRow({
    id: uuidv7(receivedAtMs, random, cell),
    receivedAtMs,
    webhookId: uuidBytes(webhook),
    key: key === undefined ? null : dedupeKey(key),
  });
  const limits = { bytesMax: 67_108_864, ageMaxMs: 3_600_000, writers: () => 1 };
  const onFailed = (error: Error) => expect.fail(error.message);
  const writer = new SpoolWriter({ disk: realDisk, folder, cell, ...limits, nowMs: Date.now, onFailed });
  expect(await writer.append([row])).toBe(null);
  await writer.close();
  return idOf(row);
}
