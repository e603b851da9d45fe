/** The table of presets, and the scheme that a webhook's settings select. */
import type { SchemeDefinition } from './definition.ts';
import type { Preset } from './preset.ts';
import { firstPresets } from './presets/first.ts';
import { generalPresets } from './presets/general.ts';
import { compileScheme, compileSha256, type Scheme } from './scheme.ts';

/** `signature_scheme` of a webhook with its own `scheme_definition`. */
export const CUSTOM = 'custom';
export const DEFAULT_SCHEME = 'sha256';

/** The general ones first, then the senders by title. */
export const presets: readonly Preset[] = [
  ...generalPresets.slice(0, 3),
  ...[...generalPresets.slice(3), ...firstPresets].sort((one, other) => one.title.localeCompare(other.title, 'en')),
];

const byName = new Map(presets.map((preset) => [preset.name, preset]));

export function presetNamed(name: string): Preset | undefined {
  return byName.get(name);
}

/** The members of a webhook that select its scheme. */
export interface SchemeSettings {
  signatureScheme: string;
  schemeDefinition: SchemeDefinition | null;
  signatureHeader: string | null;
  toleranceSeconds: number | null;
}

/** The definition that the settings select; null if this build has no such preset. */
export function definitionOf({
  signatureScheme,
  schemeDefinition,
  signatureHeader,
}: Omit<SchemeSettings, 'toleranceSeconds'>): SchemeDefinition | null {
  if (signatureScheme === CUSTOM) return schemeDefinition;
  const definition = byName.get(signatureScheme)?.definition;
  if (definition === undefined) return null;
  return signatureScheme === 'token' ? { ...definition, header: signatureHeader ?? 'authorization' } : definition;
}

/** Compiles the scheme that the settings select; null if this build has no such preset. */
export function schemeOf(settings: SchemeSettings): Scheme | null {
  const { signatureScheme: name, signatureHeader, toleranceSeconds } = settings;
  const definition = definitionOf(settings);
  if (definition === null) return null;
  const source = { ...byName.get(name), name, definition };
  return name === DEFAULT_SCHEME ? compileSha256(source, signatureHeader) : compileScheme(source, toleranceSeconds);
}
