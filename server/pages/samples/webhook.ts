/** How to send a signed request to one webhook: commands. */
import { CUSTOM, DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import type { Sample } from './agent.ts';
import { commandDefinition, type SignedTarget, signedCurl } from './curl.ts';

const EXAMPLE_BODY = '{"hello":"world"}';

type Target = SignedTarget & { url: string };

/** The first of samplesOf, for the page that shows a new secret. */
export function tryItOf(webhook: Target, weir: string): string {
  return samplesOf(webhook, weir)[0]?.code ?? '';
}

/**
 * Returns a Weir command that signs as the sender does, and a curl command where a shell can sign.
 * @param weir how to run the command line
 */
export function samplesOf(webhook: Target, weir: string): Sample[] {
  const { url, signature_scheme: scheme, signature_header: header, public_key } = webhook;
  const named = header === null ? '' : ` --signature-header ${header}`;
  const key = public_key === null ? '' : ' --private-key FILE';
  const definition = commandDefinition(webhook);
  const curl = signedCurl({ url, body: Buffer.from(EXAMPLE_BODY), contentType: 'application/json', definition });
  return [
    ...(scheme === DEFAULT_SCHEME || scheme === CUSTOM
      ? []
      : [{ language: 'Weir', code: `${weir} send ${url} --scheme ${scheme}${named}${key}` }]),
    ...(curl === null ? [] : [{ language: 'curl', code: curl }]),
  ];
}
