/** Code that sends a signed request to a webhook, in several languages, filled in with its URL, headers and scheme. */
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { type Part, planOf } from './plan.ts';
import { type LanguageName, literalOf, renderSample, type Sample } from './render.ts';

/** Writes parts as one expression of the language. */
const sums: Record<LanguageName, (parts: readonly Part[]) => string> = {
  curl: quoted,
  node: (parts) => sum('node', parts, ' + '),
  python: (parts) => sum('python', parts, ' + '),
  go: (parts) => sum('go', parts, ' + '),
  php: (parts) => sum('php', parts, ' . ', '$'),
};

/**
 * @param definition of the scheme; null: the webhook verifies no signature
 * @returns no samples for a scheme that is not an HMAC over the body, the time and an id
 */
export function sendSamples(url: string, body: string, definition: SchemeDefinition | null): Sample[] {
  const plan = planOf(url, body, definition);
  if (plan === null) return [];
  const signed = plan.content.length > 0;
  const names = Object.keys(sums) as LanguageName[];
  return names.map((name) => renderSample('send', name, { ...plan, signed, sum: sums[name] }));
}

function sum(language: LanguageName, parts: readonly Part[], operator: string, sign = ''): string {
  return parts.map((part) => ('name' in part ? sign + part.name : literalOf(language, part.text))).join(operator);
}

/** One word of a shell. Texts of a plan need no escapes between double quotes, except `!`, which an interactive shell may expand. */
function quoted(parts: readonly Part[]): string {
  const texts = parts.map((part) =>
    'name' in part ? `$${part.name.toUpperCase()}` : part.text.replaceAll('!', `"'!'"`),
  );
  return `"${texts.join('')}"`;
}
