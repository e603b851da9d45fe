/** The table of presets, and the scheme that a webhook's settings select. */
import type { SchemeDefinition } from './definition.ts';
import type { Preset } from './preset.ts';
import table from './presets.json' with { type: 'json' };
import { compileScheme, compileSha256, type Scheme } from './scheme.ts';

/** `signature_scheme` of a webhook with its own `scheme_definition`. */
export const CUSTOM = 'custom';
export const DEFAULT_SCHEME = 'sha256';

/** The general ones first, then the senders by title, as presets.json lists them. The type is the schema's, by which a test checks the file. */
export const presets = table as readonly Preset[];

const byName = new Map(presets.map((preset) => [preset.name, preset]));

/** The preset of this name; undefined if this build has none. */
export function presetNamed(name: string): Preset | undefined {
  return byName.get(name);
}

/** Stands for a preset that a newer build set. It has no usable public key, so no request verifies. */
const UNKNOWN: SchemeDefinition = { algorithm: 'ed25519' };

/** The members of a webhook that select its scheme. */
export interface SchemeSettings {
  signatureScheme: string;
  schemeDefinition: SchemeDefinition | null;
  signatureHeader: string | null;
  /** Null when the webhook has none. For a preset that takes a secret or a public key, it selects the definition. */
  publicKey: string | null;
  toleranceSeconds: number | null;
}

/** The definition that the settings select; null if this build has no such preset. */
export function definitionOf({
  signatureScheme,
  schemeDefinition,
  signatureHeader,
  publicKey,
}: Omit<SchemeSettings, 'toleranceSeconds'>): SchemeDefinition | null {
  if (signatureScheme === CUSTOM) return schemeDefinition;
  const preset = byName.get(signatureScheme);
  if (preset === undefined) return null;
  const definition = (publicKey === null ? undefined : preset.publicKeyDefinition) ?? preset.definition;
  return signatureScheme === 'token' ? { ...definition, header: signatureHeader ?? 'authorization' } : definition;
}

/** Compiles the scheme that the settings select. With a preset that this build does not have, no request verifies. */
export function schemeOf(settings: SchemeSettings): Scheme {
  const { signatureScheme: name, signatureHeader, toleranceSeconds } = settings;
  const definition = definitionOf(settings);
  if (definition === null) return compileScheme({ name, definition: UNKNOWN }, null);
  const source = { ...byName.get(name), name, definition };
  return name === DEFAULT_SCHEME ? compileSha256(source, signatureHeader) : compileScheme(source, toleranceSeconds);
}
