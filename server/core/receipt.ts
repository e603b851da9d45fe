/** A receipt names one delivery and one attempt: whoever holds it held that lease. `<delivery id>.<attempt>` */
import { isUuid } from './ids.ts';

export interface Receipt {
  deliveryId: string;
  attempt: number;
}

export function receiptText({ deliveryId, attempt }: Receipt): string {
  return `${deliveryId}.${attempt}`;
}

/** Null when the text is no receipt; such a lease never was. */
export function parseReceipt(text: string): Receipt | null {
  const dot = text.lastIndexOf('.');
  const deliveryId = text.slice(0, dot);
  const attempt = text.slice(dot + 1);
  return isUuid(deliveryId) && /^[1-9]\d{0,8}$/.test(attempt)
    ? { deliveryId: deliveryId.toLowerCase(), attempt: Number(attempt) }
    : null;
}
