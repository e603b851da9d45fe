/** A refused request as the diagnosis gets it, and what it finds. */
import type { SchemeSettings } from '../presets.ts';
import type { RejectionReason } from './reasons.ts';

interface WebhookSecret {
  bytes: Buffer;
  /** True for a previous secret whose overlap has ended. */
  expired: boolean;
}

/** Another webhook, whose URL or secret the sender may have confused with this one. */
interface OtherWebhook {
  id: string;
  /** Active secrets. */
  secrets: readonly Buffer[];
}

export interface RefusedRequest {
  /** Alternating names in lower case and values. */
  headers: readonly string[];
  /** Null: the body was too large to be stored. */
  body: Buffer | null;
  /** For a body that was too large to be stored: whether it exceeded the bounds of the scheme. Not read with a `body`. */
  exceedsBounds?: boolean;
  secrets: readonly WebhookSecret[];
  others: readonly OtherWebhook[];
  /** The scheme of the webhook, and what else selects its definition. */
  settings: SchemeSettings;
  /** The URL that the sender signed; empty if the scheme signs none. */
  url: string;
  receivedAtMs: number;
}

export interface Diagnosis {
  reason: RejectionReason;
  /** Name of the faulty header; null if the fault is not in a header. */
  header: string | null;
  /** True if the request verifies once this fault is fixed; null if unknown. */
  otherwiseValid: boolean | null;
  /** For reason `other_webhook`: id of the webhook whose secret signed the request. */
  otherWebhookId?: string;
}

/** The secrets of the webhook that are valid. */
export function activeSecrets({ secrets }: RefusedRequest): Buffer[] {
  return secrets.filter(({ expired }) => !expired).map(({ bytes }) => bytes);
}

/** Secrets shorter than this occur in unrelated text by chance. */
const TELLING_BYTES = 8;

/** Whether the text contains one of the secrets. A secret shorter than TELLING_BYTES must be the whole text, trimmed. */
export function holdsSecret(text: string, secrets: readonly Buffer[]): boolean {
  return secrets.some((bytes) => {
    const secret = bytes.toString('utf8');
    return bytes.length < TELLING_BYTES ? text.trim() === secret : text.includes(secret);
  });
}
