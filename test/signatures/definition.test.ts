import { describe, expect, test } from 'vitest';
import { definitionSchema, presetDefinitionSchema } from '../../server/signatures/definition.ts';
import { presets } from '../../server/signatures/presets.ts';

describe('each preset', () => {
  test.each(presets.map((preset) => [preset.name, preset] as const))('%s is whole and valid', (_, preset) => {
    expect(preset.name).toMatch(/^[a-z0-9]+(?:-[a-z0-9]+)*$/);
    expect(presetDefinitionSchema.parse(preset.definition)).toEqual(preset.definition);
    expect(URL.canParse(preset.docs) && preset.docs.startsWith('https://')).toBe(true);
    expect(preset.steps.length).toBeGreaterThan(1);
    expect(presets.filter(({ name }) => name === preset.name)).toHaveLength(1);
  });
});

describe('a definition is refused', () => {
  const base = { algorithm: 'hmac-sha256', header: 'x-sig' };
  test.each([
    [{ ...base, content: 'x' }],
    [{ ...base, content: '{body}{body}' }],
    [{ ...base, content: '{body}{secret}' }],
    [{ ...base, content: '{timestamp}{body}' }],
    [{ ...base, content: '{id}{body}' }],
    [{ ...base, content: '{timestamp}{body}', timestamp: { from: 'json:/t' } }],
    [{ ...base, key: 'v1' }],
    [{ ...base, timestamp: { from: 'field:t' } }],
    [{ ...base, header: 'x sig' }],
    [{ ...base, algorithm: 'twilio' }],
    [{ ...base, more: 1 }],
    [{ algorithm: 'hmac-sha256' }],
  ])('%j', (definition) => {
    expect(definitionSchema.safeParse(definition).success).toBe(false);
  });
});
