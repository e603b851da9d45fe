/** How to send a request to one webhook, and how to receive its events: commands, and code in several languages. */

import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import { defaultSignatureHeaders } from '../../model/signatures/signature.ts';
import { selectedDefinition } from '../../model/webhook-schemes.ts';
import { commandSignatureHeader, signedCurl } from './curl.ts';
import type { Sample } from './render.ts';
import { sendSamples } from './send.ts';

const EXAMPLE_BODY = '{"hello":"world"}';

interface Target {
  url: string;
  signature_scheme: string;
  scheme_definition: SchemeDefinition | null;
  has_secret: boolean;
  public_key: string | null;
  signature_header: string | null;
}

/** A command that sends a signed request. @param weir how to run the command line */
export function tryItOf(webhook: Target, weir: string): string {
  const { url, signature_scheme, public_key } = webhook;
  const key = public_key === null ? '' : ' --private-key FILE';
  if (signature_scheme !== DEFAULT_SCHEME) return `${weir} send ${url} --scheme ${signature_scheme}${key}`;
  const signatureHeader = commandSignatureHeader(webhook);
  return signedCurl({ url, body: Buffer.from(EXAMPLE_BODY), contentType: 'application/json', signatureHeader })!;
}

/** Code that sends the same request; for a scheme that no sample can sign by, only the command of Weir. @param weir how to run the command line */
export function samplesOf(webhook: Target, weir: string): Sample[] {
  const { url, signature_scheme: scheme, has_secret, signature_header } = webhook;
  const selected = selectedDefinition(webhook);
  // The default scheme accepts two headers unless the webhook names one.
  const header = signature_header ?? defaultSignatureHeaders[0];
  const definition = selected && scheme === DEFAULT_SCHEME ? { ...selected, header } : selected;
  const samples = definition === null ? [] : sendSamples(url, EXAMPLE_BODY, has_secret ? definition : null);
  // The command comes first for a scheme of a sender: it signs as the sender does.
  return scheme === DEFAULT_SCHEME ? samples : [{ language: 'Weir', code: tryItOf(webhook, weir) }, ...samples];
}
