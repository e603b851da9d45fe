/** A receipt names one delivery and one of its leases: whoever holds it held that lease. `<delivery id>.<number of the lease>` */
import { isTimedId } from './ids.ts';

export interface Receipt {
  deliveryId: string;
  lease: number;
}

export function receiptText({ deliveryId, lease }: Receipt): string {
  return `${deliveryId}.${lease}`;
}

/** Null when the text is no receipt; such a lease never was. */
export function parseReceipt(text: string): Receipt | null {
  const dot = text.lastIndexOf('.');
  const deliveryId = text.slice(0, dot);
  const lease = text.slice(dot + 1);
  return isTimedId(deliveryId) && /^[1-9]\d{0,8}$/.test(lease)
    ? { deliveryId: deliveryId.toLowerCase(), lease: Number(lease) }
    : null;
}
