/** Receipts of leases: as text, and as the columns of a statement. */
import { isTimedId, uuidv7Milliseconds } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';

/** A receipt identifies one lease of one delivery and proves possession of that lease: `<delivery id>.<lease number>`. */
export interface Receipt {
  deliveryId: string;
  lease: number;
}

/** A receipt as text, see Receipt. */
export function receiptText({ deliveryId, lease }: Receipt): string {
  return `${deliveryId}.${lease}`;
}

/** Parses a receipt; null if the text is not a valid receipt, so that no such lease exists. */
export function parseReceipt(text: string): Receipt | null {
  const dot = text.lastIndexOf('.');
  const deliveryId = text.slice(0, dot);
  const lease = text.slice(dot + 1);
  return isTimedId(deliveryId) && /^[1-9]\d{0,8}$/.test(lease)
    ? { deliveryId: deliveryId.toLowerCase(), lease: Number(lease) }
    : null;
}

/** Ids, leases and times (Unix milliseconds) as Postgres arrays, sorted by id. The time is taken from the id and selects the partition. */
export function receiptColumns(receipts: readonly Receipt[]): string[] {
  const sorted = receipts.toSorted((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1));
  return [
    arrayOf(sorted.map(({ deliveryId }) => deliveryId)),
    arrayOf(sorted.map(({ lease }) => lease)),
    arrayOf(sorted.map(({ deliveryId }) => uuidv7Milliseconds(deliveryId))),
  ];
}

/** SQL of the receipts in receiptColumns. A sum with whole milliseconds is exact, and costs a fifth of parsing the text of a time. */
export function receiptRows(ids: string, leases: string, times: string, given = ''): string {
  return `
      select id, lease, timestamptz 'epoch' + ms * interval '1 ms' as received_at${given}
      from unnest(${ids}::uuid[], ${leases}::int[], ${times}::bigint[]) r (id, lease, ms)`;
}
