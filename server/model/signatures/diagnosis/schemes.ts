/** Signature schemes of other services, recognized by header, so that a diagnosis can name the scheme. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { decodedKeys } from './readings.ts';
import type { RejectionReason } from './reasons.ts';

/** Returns the first value of a request header, by its name in lower case. */
type Field = (name: string) => string | undefined;

export interface Scheme {
  reason: RejectionReason;
  /** In lower case. The scheme matches if the value of this header has this shape. */
  header: string;
  shape: RegExp;
  /** Whether the signature verifies with the secret; null if the request alone does not show it. */
  verifies(value: string, field: Field, body: Buffer, secret: Buffer): boolean | null;
}

const HEX_256 = '[0-9a-f]{64}';
const BASE64_256 = '[A-Za-z0-9+/]{43}=';

/** What GitHub sends beside X-Hub-Signature-256. */
export const githubSha1: Scheme = {
  reason: 'scheme_github_sha1',
  header: 'x-hub-signature',
  shape: /^sha1=[0-9a-f]{40}$/i,
  verifies: (value, _, body, secret) => equal(hmac('sha1', secret, body), Buffer.from(value.slice(5), 'hex')),
};

export const schemes: readonly Scheme[] = [
  {
    reason: 'scheme_stripe',
    header: 'stripe-signature',
    shape: /^(?=.*\bt=\d{1,20}\b)(?=.*\bv1=)[\w=, ]{1,2000}$/,
    verifies: (value, _, body, secret) => {
      const parts = value.split(',').map((part) => part.trim().split('=', 2) as [string, string]);
      const time = parts.find(([key]) => key === 't')?.[1];
      const expected = hmac('sha256', secret, `${time}.`, body);
      return parts.some(([key, hex]) => key === 'v1' && equal(expected, Buffer.from(hex, 'hex')));
    },
  },
  versioned('scheme_slack', 'x-slack-signature', 'x-slack-request-timestamp'),
  versioned('scheme_zoom', 'x-zm-signature', 'x-zm-request-timestamp'),
  standard('webhook'),
  standard('svix'),
  {
    reason: 'scheme_shopify',
    header: 'x-shopify-hmac-sha256',
    shape: new RegExp(`^${BASE64_256}$`),
    verifies: (value, _, body, secret) => equal(hmac('sha256', secret, body), Buffer.from(value, 'base64')),
  },
  {
    reason: 'scheme_paddle',
    header: 'paddle-signature',
    shape: new RegExp(`^ts=\\d{1,20}(?:;h1=${HEX_256})+$`),
    verifies: (value, _, body, secret) => {
      const [time, ...digests] = value.split(';').map((part) => part.slice(3));
      const expected = hmac('sha256', secret, `${time}:`, body);
      return digests.some((hex) => equal(expected, Buffer.from(hex, 'hex')));
    },
  },
  githubSha1,
  {
    reason: 'scheme_gitlab',
    header: 'x-gitlab-token',
    shape: /./,
    verifies: (value, _field, _body, secret) => equal(Buffer.from(value), secret),
  },
  // Twilio signs the URL that the sender used, which a proxy may have changed.
  named('scheme_twilio', 'x-twilio-signature', /^[A-Za-z0-9+/]{27}=$/),
  named('scheme_ed25519', 'x-signature-ed25519', /^[0-9a-f]{128}$/i),
];

function versioned(reason: RejectionReason, header: string, timeHeader: string): Scheme {
  return {
    reason,
    header,
    shape: new RegExp(`^v0=${HEX_256}$`),
    verifies: (value, field, body, secret) => {
      const expected = hmac('sha256', secret, `v0:${field(timeHeader) ?? ''}:`, body);
      return equal(expected, Buffer.from(value.slice(3), 'hex'));
    },
  };
}

/** The key is the decoded base64 after `whsec_`. Some senders use the characters themselves. */
function standard(prefix: string): Scheme {
  return {
    reason: 'scheme_standard_webhooks',
    header: `${prefix}-signature`,
    shape: new RegExp(`^(?:v1,${BASE64_256}(?: |$))+$`),
    verifies: (value, field, body, secret) => {
      const signed = `${field(`${prefix}-id`) ?? ''}.${field(`${prefix}-timestamp`) ?? ''}.`;
      const claimed = value.split(' ').map((part) => Buffer.from(part.slice(3), 'base64'));
      return [secret, ...decodedKeys(secret.toString('utf8'))].some((key) => {
        const expected = hmac('sha256', key, signed, body);
        return claimed.some((digest) => equal(expected, digest));
      });
    },
  };
}

function named(reason: RejectionReason, header: string, shape: RegExp): Scheme {
  return { reason, header, shape, verifies: () => null };
}

function hmac(algorithm: string, key: Uint8Array, ...parts: (string | Uint8Array)[]): Buffer {
  const mac = createHmac(algorithm, key);
  for (const part of parts) mac.update(part);
  return mac.digest();
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
