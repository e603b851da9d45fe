/** The picker of a sender for a new webhook, and the fields that the sender needs. */

import { isAsymmetric } from '../../model/signatures/keys.ts';
import { CUSTOM, DEFAULT_SCHEME, presetNamed, presets } from '../../model/signatures/presets.ts';
import { losesRefused, retriesText } from '../../model/signatures/retries.ts';
import { webhookForm } from '../../model/webhooks.ts';

const popular = [
  'github',
  'stripe',
  'shopify',
  'slack',
  'gitlab',
  'twilio',
  'sendgrid',
  'meta',
  'linear',
  'jira',
  'paddle',
  'standard-webhooks',
].map((name) => presetNamed(name)!);

/** For senders that the table does not have. */
const general = [DEFAULT_SCHEME, 'token', 'basic'].map((name) => presetNamed(name)!);

/** Requests a minute that the form suggests for a sender that does not repeat those over the limit. */
const SUGGESTED_LIMIT = 1_000;

/** The data of the picker. `found`: senders with this text in the name or title, in any case; null for an empty text. */
export function pickerOf(q: string) {
  const wanted = q.trim().toLowerCase();
  const has = (text: string) => text.toLowerCase().includes(wanted);
  const found = wanted === '' ? null : presets.filter(({ name, title }) => has(name) || has(title));
  return { q, found, popular, general, all: presets };
}

/** The scheme with this name or title, in any case; null: not found. */
export function schemeNamed(text: string): string | null {
  const wanted = text.trim().toLowerCase();
  if (wanted === CUSTOM) return CUSTOM;
  return presets.find(({ name, title }) => name === wanted || title.toLowerCase() === wanted)?.name ?? null;
}

/** Whether the sender shows the secret, usually once it has the URL of the webhook. */
export function showsSecret(scheme: string): boolean {
  const preset = presetNamed(scheme);
  return preset !== undefined && !preset.ownSecret && !isAsymmetric(preset.definition.algorithm);
}

/** What the form of a new webhook says about its sender. */
export function senderOf(scheme: string) {
  const preset = presetNamed(scheme);
  return {
    title: preset?.title ?? 'Own definition',
    isGeneral: preset === undefined || general.includes(preset),
    takesSecret: preset === undefined || !isAsymmetric(preset.definition.algorithm),
    showsSecret: showsSecret(scheme),
    suggestedLimit: losesRefused(scheme) ? SUGGESTED_LIMIT : null,
    retries: retriesText(scheme),
  };
}

type Form = typeof webhookForm;
type SchemeField = Form['scheme'][number];

/** The parts of the form, with only those fields of the scheme that the sender needs or that have an error. */
export function formOf(
  scheme: string,
  errors: Readonly<Record<string, string>>,
): Record<keyof Form, readonly string[]> {
  const preset = presetNamed(scheme);
  const own = preset === undefined;
  const isKeyed = preset !== undefined && isAsymmetric(preset.definition.algorithm);
  const needs: Record<SchemeField, boolean> = {
    signature_header: scheme === DEFAULT_SCHEME || scheme === 'token',
    public_key: own || preset.publicKeyDefinition !== undefined,
    verify_token: false,
    tolerance_seconds: own || preset.definition.timestamp !== undefined,
    scheme_definition: false,
  };
  const main: readonly [string, boolean][] = [
    ['public_key', isKeyed],
    ['verify_token', preset?.handshake === 'hub-challenge'],
    ['scheme_definition', own],
  ];
  const asked = main.filter(([, isNeeded]) => isNeeded).map(([name]) => name);
  return {
    ...webhookForm,
    main: ['name', ...asked],
    scheme: webhookForm.scheme.filter((name) => (needs[name] || errors[name] !== undefined) && !asked.includes(name)),
    limits: [...webhookForm.limits],
    type: ['description', ...webhookForm.type],
  };
}
