/** Where an event has the key by which its deliveries are ordered: a JSON Pointer into the body, or `header:NAME` of a stored header. */
import { createHmac } from 'node:crypto';
import { readPointer } from './signatures/code-schemes.ts';
import { parsePart } from './signatures/event-type.ts';
import { HEADER_NAME, HEADER_WANTED, headerOf } from './signatures/sources.ts';
import { isStoredHeader } from './signatures/stored-headers.ts';

export const ORDER_BY_CHARACTERS_MAX = 1_000;
/** Limit on the distinct `order_by` of the subscriptions of a webhook: each reads every body. */
export const ORDERS_MAX = 4;

/** An `order_by` of a webhook. `id`: subscriptions.order_id, decimal. */
export interface Order {
  orderBy: string;
  id: string;
}

/** Pairs of an order id and a key, as in events.order_keys. */
type OrderKeys = readonly bigint[];

/** Reads the keys of an event; null: it has none. Never throws. */
export type OrderReader = (request: { header(name: string): string | undefined }, body: Uint8Array) => OrderKeys | null;

/** The text with the name of a header in lower case, as it is stored. */
export function normalOrderBy(text: string): string {
  return /^header:/i.test(text) ? text.toLowerCase() : text;
}

/** Compiles a reader of the key of an event before it is hashed, which returns null without a key. Null: the text is not an `order_by`. */
export function orderKeyReader(orderBy: string): ((...of: Parameters<OrderReader>) => string | null) | null {
  const part = partOf(orderBy);
  if (part === null) return null;
  return (request, body) => ('header' in part ? request.header(part.header) : readPointer(body, part.path)) || null;
}

/** What is wrong with an `order_by`; null: nothing. @param signatureHeaders of the webhook, which are never stored */
export function orderByFault(text: string, signatureHeaders: readonly string[]): string | null {
  if (text.length > ORDER_BY_CHARACTERS_MAX || partOf(text) === null)
    return 'Give a JSON Pointer to a member of the body, for example /data/customer, or header:NAME.';
  const name = headerOf(text);
  if (name === null) return null;
  if (!HEADER_NAME.test(name)) return HEADER_WANTED;
  return isStoredHeader(name) && !signatureHeaders.includes(name)
    ? null
    : `Deliveries cannot be ordered by ${text}: such headers are never stored.`;
}

/**
 * Compiles the orders of a webhook; null: it has none. A key is a string or a number that is not empty; reading it takes one scan of the body
 * (json-scan.ts). It is stored as 64 bits of an HMAC: a sender cannot choose two values with one key, and the key does not reveal its value.
 */
export function orderReader(orders: readonly Order[] | null, webhookId: Uint8Array): OrderReader | null {
  if (orders === null) return null;
  const compiled = orders.flatMap(({ orderBy, id }) => {
    const readKey = orderKeyReader(orderBy);
    if (readKey === null) return [];
    const secret = Buffer.alloc(8 + webhookId.length);
    secret.writeBigInt64BE(BigInt(id));
    secret.set(webhookId, 8);
    return { id: BigInt(id), readKey, secret };
  });
  return (request, body) => {
    let keys: bigint[] | null = null;
    for (const { id, readKey, secret } of compiled) {
      const value = readKey(request, body);
      if (value === null) continue;
      keys ??= [];
      keys.push(id, createHmac('sha256', secret).update(value).digest().readBigInt64BE(0));
    }
    return keys;
  };
}

function partOf(orderBy: string) {
  return parsePart(orderBy.startsWith('/') ? `json:${orderBy}` : orderBy.startsWith('header:') ? orderBy : '');
}
