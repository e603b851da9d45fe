/** A receipt identifies one lease of one delivery and proves possession of that lease: `<delivery id>.<lease number>`. */
import { isTimedId } from './ids.ts';

export interface Receipt {
  deliveryId: string;
  lease: number;
}

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
