/** Events for the tests of the spool. */
import { randomBytes } from 'node:crypto';
import { inetBytes } from '../../../server/model/address.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';

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
    key: null,
    ...given,
  };
}

export const idOf = ({ id }: EventRow) => uuidText(id);

/** Ids of the stored events, each as often as it is stored. */
export async function storedIds(database: Database): Promise<string[]> {
  const rows = await database.query<{ id: string }>({ text: 'select id::text from events order by id' });
  return rows.map(({ id }) => id);
}
