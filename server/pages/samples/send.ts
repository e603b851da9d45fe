/** Code that sends a signed request to a webhook, in several languages, filled in with its URL, headers and scheme. */
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { signedCurl } from './curl.ts';
import { type Part, planOf } from './plan.ts';
import { type LanguageName, literalOf, renderSample, type Sample } from './render.ts';

type Language = Exclude<LanguageName, 'curl'>;

/** What joins texts in the language, and what a variable begins with. */
const sums = {
  node: [' + ', ''],
  python: [' + ', ''],
  go: [' + ', ''],
  php: [' . ', '$'],
} satisfies Record<Language, [operator: string, sign: string]>;

/**
 * @param definition of the scheme, with its header; `none`: the webhook verifies no signature
 * @returns the command of curl, and code in the other languages if the scheme is an HMAC over the body, the time and an id
 */
export function sendSamples(url: string, body: string, definition: SchemeDefinition | 'none'): Sample[] {
  const curl = signedCurl({ url, body: Buffer.from(body), contentType: 'application/json', definition });
  const plan = planOf(url, body, definition);
  const signed = plan !== null && plan.content.length > 0;
  const names = plan === null ? [] : (Object.keys(sums) as Language[]);
  const others = names.map((name) =>
    renderSample('send', name, { ...plan, signed, sum: (parts: readonly Part[]) => sum(name, parts) }),
  );
  return [...(curl === null ? [] : [{ language: 'curl', code: curl }]), ...others];
}

/** Writes parts as one expression of the language. */
function sum(language: Language, parts: readonly Part[]): string {
  const [operator, sign] = sums[language];
  return parts.map((part) => ('name' in part ? sign + part.name : literalOf(language, part.text))).join(operator);
}
