/** How to send a request to one webhook: a command, and code in several languages. */

import type { SchemeDefinition } from '../signatures/definition.ts';
import { DEFAULT_SCHEME, presetNamed } from '../signatures/presets.ts';
import { signedCurl } from './curl.ts';
import { type Sample, sendSamples } from './send-samples.ts';

const EXAMPLE_BODY = '{"hello":"world"}';

interface Target {
  url: string;
  signature_scheme: string;
  scheme_definition: SchemeDefinition | null;
  has_secret: boolean;
  signature_header: string | null;
}

/** A command that sends a signed request. */
export function tryItOf({ url, signature_scheme, has_secret, signature_header }: Target): string {
  if (signature_scheme !== DEFAULT_SCHEME) return `npx weir send ${url} --scheme ${signature_scheme}`;
  const signatureHeader = has_secret ? (signature_header ?? 'X-Hub-Signature-256') : null;
  return signedCurl({ url, body: Buffer.from(EXAMPLE_BODY), contentType: 'application/json', signatureHeader })!;
}

/** Code that sends the same request; for a scheme that no sample can sign by, only the command of Weir. */
export function samplesOf(webhook: Target): Sample[] {
  const { url, signature_scheme: scheme, scheme_definition, has_secret, signature_header } = webhook;
  const header = signature_header ?? 'x-hub-signature-256';
  const definition =
    scheme === DEFAULT_SCHEME
      ? { algorithm: 'hmac-sha256' as const, header, prefix: 'sha256=' }
      : (scheme_definition ?? presetNamed(scheme)?.definition);
  const samples = definition === undefined ? [] : sendSamples(url, EXAMPLE_BODY, has_secret ? definition : null);
  // The command comes first for a scheme of a sender: it signs as the sender does.
  return scheme === DEFAULT_SCHEME ? samples : [{ language: 'Weir', code: tryItOf(webhook) }, ...samples];
}
