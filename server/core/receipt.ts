/** A receipt names one delivery and one of its leases: whoever holds it held that lease. `<delivery id>.<number of the lease>` */
import { isUuid, uuidv7Milliseconds } from './ids.ts';

export interface Receipt {
  deliveryId: string;
  lease: number;
}

export function receiptText({ deliveryId, lease }: Receipt): string {
  return `${deliveryId}.${lease}`;
}

/** Times past this are no times that Weir ever gave, and Postgres does not read them as JavaScript writes them. */
const YEAR_10000_MS = 253_402_300_800_000;

/** Null when the text is no receipt; such a lease never was. */
export function parseReceipt(text: string): Receipt | null {
  const dot = text.lastIndexOf('.');
  const deliveryId = text.slice(0, dot);
  const lease = text.slice(dot + 1);
  return isUuid(deliveryId) && uuidv7Milliseconds(deliveryId) < YEAR_10000_MS && /^[1-9]\d{0,8}$/.test(lease)
    ? { deliveryId: deliveryId.toLowerCase(), lease: Number(lease) }
    : null;
}
