/** Schemes that a diagnosis names by a reason of their own, recognized by header and value. */
import { presetNamed } from '../presets.ts';
import { compileScheme, type Scheme } from '../scheme.ts';
import { headerOf } from '../sources.ts';
import type { RejectionReason } from './reasons.ts';

/** Presets and their reasons. Intercom signs as GitHub did with SHA-1 alone. */
export const namedPresets: readonly (readonly [preset: string, reason: RejectionReason])[] = [
  ['stripe', 'scheme_stripe'],
  ['slack', 'scheme_slack'],
  ['zoom', 'scheme_zoom'],
  ['standard-webhooks', 'scheme_standard_webhooks'],
  ['svix', 'scheme_standard_webhooks'],
  ['shopify', 'scheme_shopify'],
  ['paddle', 'scheme_paddle'],
  ['intercom', 'scheme_github_sha1'],
  ['gitlab-token', 'scheme_gitlab'],
  ['twilio', 'scheme_twilio'],
  ['discord', 'scheme_ed25519'],
];

export interface NamedScheme {
  reason: RejectionReason;
  scheme: Scheme;
}

/** The compiled schemes, which do not check the time. */
const named: readonly NamedScheme[] = namedPresets.map(([name, reason]) => {
  return { reason, scheme: compileScheme({ name, definition: presetNamed(name)!.definition }, 0) };
});

/** The first of these schemes that has its signature in this header; null: none. */
export function namedHeaderOf(header: string): NamedScheme | null {
  return named.find(({ scheme }) => scheme.headers[0] === header) ?? null;
}

/** The scheme that a header with this value belongs to, whatever the id and time of the request; null: none. */
export function namedSchemeOf(header: string, value: string): NamedScheme | null {
  return named.find(({ scheme }) => scheme.headers[0] === header && isOfForm(scheme, header, value)) ?? null;
}

function isOfForm({ definition: { timestamp, id }, present }: Scheme, header: string, value: string): boolean {
  const others = [headerOf(timestamp?.from), headerOf(id)].flatMap((name) => (name === null ? [] : [name, '1']));
  return present({ headers: [header, value, ...others], method: 'POST', url: '' }).kind === 'digests';
}
