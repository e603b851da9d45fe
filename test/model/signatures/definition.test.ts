import { describe, expect, test } from 'vitest';
import { definitionSchema } from '../../../server/model/signatures/definition.ts';
import { presetSchema } from '../../../server/model/signatures/preset.ts';
import { presets } from '../../../server/model/signatures/presets.ts';

describe('presets.json', () => {
  test.each(presets.map((preset) => [preset.name, preset] as const))('%s is valid by the schema', (_, preset) => {
    expect(presetSchema.parse(preset)).toEqual(preset);
  });

  test('lists the general presets first, then the senders by title, each name once', () => {
    const names = presets.map(({ name }) => name);
    expect(names.slice(0, 3)).toEqual(['sha256', 'token', 'basic']);
    expect(new Set(names).size).toBe(names.length);
    const titles = presets.slice(3).map(({ title }) => title);
    expect(titles).toEqual([...titles].sort((one, other) => one.localeCompare(other, 'en')));
  });

  test.each([
    [{ source: undefined }],
    [{ docs: 'http://sender.example' }],
    [{ steps: ['One step.'] }],
    [{ definition: { algorithm: 'hmac-md5' } }],
    [{ handshake: 'other' }],
    [{ definition: { algorithm: 'token', refused_status: 404 } }],
    [{ more: 1 }],
  ])('with a preset changed by %j would be refused', (change) => {
    expect(presetSchema.safeParse({ ...presets[0], ...change }).success).toBe(false);
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
