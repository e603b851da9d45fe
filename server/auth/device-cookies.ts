/**
 * Device cookies (OWASP, "Slow Down Online Guessing Attacks with Device Cookies"): a browser in which a user signed in before tries
 * the password under a counter of its own, so that strangers who pause the account do not keep its owner out.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../http/exchange.ts';
import { setCookie } from './sessions.ts';

/** A browser is known for so long after its last sign-in. */
export const DEVICE_SECONDS = 180 * 86_400;

export class DeviceCookies {
  readonly #publicUrl: string;
  readonly #key: Buffer;
  readonly #name: string;

  /** @param key derived for this. The current one alone: after a rotation each browser has to sign in once. */
  constructor(publicUrl: string, key: Buffer) {
    this.#publicUrl = publicUrl;
    this.#key = key;
    this.#name = publicUrl.startsWith('https:') ? '__Host-weir_device' : 'weir_device';
  }

  /** The browser's counter for this user; null: it presents no cookie, or one that expired or is another user's. */
  counterKey(exchange: Exchange, userId: string, nowMs: number): string | null {
    const [nonce = '', expires = '', mac = ''] = (exchange.cookie(this.#name) ?? '').split('.');
    const [given, wanted] = [Buffer.from(mac), Buffer.from(this.#mac(userId, nonce, expires))];
    if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return null;
    return Number(expires) * 1000 > nowMs ? `device:${nonce}` : null;
  }

  /** Makes the browser known for this user, who has just signed in; another user of the same browser is not any more. */
  keep(exchange: Exchange, userId: string, nowMs: number): void {
    const nonce = randomBytes(16).toString('base64url');
    const expires = String(Math.floor(nowMs / 1000) + DEVICE_SECONDS);
    const value = `${nonce}.${expires}.${this.#mac(userId, nonce, expires)}`;
    exchange.setHeader('set-cookie', setCookie(this.#publicUrl, this.#name, value, DEVICE_SECONDS));
  }

  #mac(userId: string, nonce: string, expires: string): string {
    return createHmac('sha256', this.#key).update(`${userId}.${nonce}.${expires}`).digest('base64url');
  }
}
