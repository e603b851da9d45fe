/** How to send a request to one webhook, and how to receive its events: commands, and code in several languages. */
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import { commandDefinition, type SignedTarget, signedCurl } from './curl.ts';
import type { Sample } from './render.ts';
import { sendSamples } from './send.ts';

const EXAMPLE_BODY = '{"hello":"world"}';

type Target = SignedTarget & { url: string };

/** A command that sends a signed request. @param weir how to run the command line */
export function tryItOf(webhook: Target, weir: string): string {
  const { url, signature_scheme, public_key } = webhook;
  const key = public_key === null ? '' : ' --private-key FILE';
  if (signature_scheme !== DEFAULT_SCHEME) return `${weir} send ${url} --scheme ${signature_scheme}${key}`;
  const definition = commandDefinition(webhook)!;
  return signedCurl({ url, body: Buffer.from(EXAMPLE_BODY), contentType: 'application/json', definition })!;
}

/** Code that sends the same request; for a scheme that this build does not know, only the command of Weir. @param weir how to run the command line */
export function samplesOf(webhook: Target, weir: string): Sample[] {
  const definition = commandDefinition(webhook);
  const samples = definition === null ? [] : sendSamples(webhook.url, EXAMPLE_BODY, definition);
  // The command comes first for a scheme of a sender: it signs as the sender does.
  return webhook.signature_scheme === DEFAULT_SCHEME
    ? samples
    : [{ language: 'Weir', code: tryItOf(webhook, weir) }, ...samples];
}
