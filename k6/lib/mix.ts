/** What the mix sends: to which webhook, of which kind and size. */

import { readScheme, type Target } from './settings.ts';
import { isRepeatable } from './signing.ts';

export interface MixWebhook extends Target {
  /** Header by whose value the webhook knows a duplicate; null: each request is stored. */
  dedupeHeader: string | null;
}

/** A batch is ten events in one request; a duplicate is an event that is sent twice. */
export type Kind = 'event' | 'batch' | 'duplicate' | 'wrong_secret' | 'unknown_webhook';

export interface Draw {
  kind: Kind;
  webhook: MixWebhook;
  bytes: number;
}

/** One of 20 requests is of each of these kinds; the others are events. */
const rare: readonly Kind[] = ['batch', 'duplicate', 'wrong_secret', 'unknown_webhook'];
const CYCLE = 20;

/** Parses WEBHOOKS. @param text lines of `weir webhook add --json`, each with a `scheme` as `weir scheme show NAME --json` prints it */
export function readWebhooks(text: string): MixWebhook[] {
  const webhooks = text.split('\n').flatMap((line, i) => (line.trim() === '' ? [] : [readWebhook(line, i + 1)]));
  if (webhooks.length === 0) throw new Error('WEBHOOKS is empty');
  return webhooks;
}

function readWebhook(line: string, lineNumber: number): MixWebhook {
  const name = `Line ${lineNumber} of WEBHOOKS`;
  try {
    const { url, secret, scheme, dedupe_header: dedupeHeader = null } = JSON.parse(line);
    if (typeof url === 'string' && typeof secret === 'string')
      return { url, secret, scheme: readScheme(name, JSON.stringify(scheme ?? null)), dedupeHeader };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Error(
    `${name} is not a webhook with url and secret, as weir webhook add --generate-secret --json prints it`,
  );
}

/** The request number `i`. Kinds that no webhook supports are events. */
export function drawOf(i: number, webhooks: readonly MixWebhook[], sizes: readonly number[]): Draw {
  const cycle = Math.floor(i / CYCLE);
  const bytes = sizes[Math.floor(i / webhooks.length) % sizes.length]!;
  const kind = rare[i % CYCLE] ?? 'event';
  const fit = webhooks.filter(({ scheme, dedupeHeader }) => {
    if (kind === 'batch') return isRepeatable(scheme);
    return kind !== 'duplicate' || dedupeHeader !== null;
  });
  const [from, at] = fit.length === 0 ? [webhooks, 'event' as const] : [fit, kind];
  return { kind: at, webhook: from[(i + cycle) % from.length]!, bytes };
}
