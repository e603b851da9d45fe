/**
 * Device cookies (OWASP, "Slow Down Online Guessing Attacks with Device Cookies"): a browser in which the user has signed in
 * before has its own failure counter. An attacker who causes the account to be paused does not lock out its owner.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { sameText } from './csrf.ts';
import { setCookie } from './sessions.ts';

/** Lifetime of a device cookie, counted from the last sign-in. */
export const DEVICE_SECONDS = 180 * 86_400;

export class DeviceCookies {
  readonly #publicUrl: string;
  readonly #key: Buffer;
  readonly #name: string;

  /**
   * @param key derived for device cookies. Only the current key is accepted: after a rotation each browser has to sign in once.
   */
  constructor(publicUrl: string, key: Buffer) {
    this.#publicUrl = publicUrl;
    this.#key = key;
    this.#name = publicUrl.startsWith('https:') ? '__Host-weir_device' : 'weir_device';
  }

  /**
   * Returns the key of the browser's counter for this user. Null: no device cookie, or it has expired or belongs to another user.
   */
  counterKey(exchange: Exchange, userId: string, nowMs: number): string | null {
    const [nonce = '', expires = '', mac = ''] = (exchange.cookie(this.#name) ?? '').split('.');
    if (!sameText(mac, this.#mac(userId, nonce, expires))) return null;
    return Number(expires) * 1000 > nowMs ? `device:${nonce}` : null;
  }

  /**
   * Sets the device cookie for a user who has just signed in. It replaces the device cookie of any other user in this browser.
   */
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
