import { describe, expect, test } from 'vitest';
import { definitionSchema } from '../../../server/model/signatures/definition.ts';
import { presetSchema } from '../../../server/model/signatures/preset.ts';
import { presets } from '../../../server/model/signatures/presets.ts';
import { losesRefused, retriesText, SOME_RETRY } from '../../../server/model/signatures/retries.ts';
import { webhookInput } from '../../../server/model/webhooks.ts';

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
    [{ ...base, timestamp: { from: 'field:t' }, items: ',' }],
    [{ ...base, timestamp: { from: 'field:t' }, pair: '=' }],
    [{ ...base, header: 'x sig' }],
    [{ ...base, algorithm: 'twilio' }],
    [{ ...base, more: 1 }],
    [{ algorithm: 'hmac-sha256' }],
  ])('%j', (definition) => {
    expect(definitionSchema.safeParse(definition).success).toBe(false);
  });
});

const { create } = webhookInput({ WEBHOOK_MAX_PAYLOAD_BYTES: 1_048_576, RETENTION_DAYS: 30 });
const definition = { algorithm: 'hmac-sha256', header: 'x-own' };
const custom = (more: object) => ({ signature_scheme: 'custom', scheme_definition: { ...definition, ...more } });

/** The members that are wrong, with their messages. */
function faultsOf(given: object): [string, string][] {
  const parsed = create.safeParse({ name: 'own', secret: 'a good secret', ...given });
  return (parsed.error?.issues ?? []).map(({ path, message }) => [path.join('.'), message]);
}

describe.each(['x_own', 'x.own', 'x~own'])('the header name %s', (name) => {
  test.each([
    ['signature_header', { signature_header: name }],
    ['dedupe_header', { dedupe_header: name }],
    ['event_type_from', { event_type_from: `header:${name}` }],
    ['event_type_from', { event_type_from: `json:/type+header:${name}` }],
    ['scheme_definition', custom({ header: name })],
    ['scheme_definition', custom({ timestamp: { from: `header:${name}` } })],
    ['scheme_definition', custom({ id: `header:${name}` })],
  ])('is refused in %s', (member, given) => {
    expect(faultsOf(given)).toEqual([[member, expect.stringContaining('letters, digits and hyphens')]]);
  });
});

test('letters, digits and hyphens are allowed, and pointers may have an underscore', () => {
  expect(faultsOf({ dedupe_header: 'X-Own-2', event_type_from: 'json:/event_type' })).toEqual([]);
  expect(faultsOf(custom({ timestamp: { from: 'json:/sent_at' }, id: 'header:x-own-id' }))).toEqual([]);
});

test('a sender repeats requests or not, as its documentation says; otherwise it is said that this is not known', () => {
  expect(retriesText('github')).toMatch(
    /^GitHub does not repeat refused requests; it sends them again on request \(https:/,
  );
  expect(retriesText('shopify')).toBe('Shopify repeats refused requests 8 times over 4 hours.');
  expect(retriesText('checkr')).toBe('Whether Checkr repeats requests is not documented here.');
  for (const scheme of ['sha256', 'standard-webhooks', 'custom', 'of a newer release'])
    expect(retriesText(scheme)).toBe(SOME_RETRY);
  expect(['github', 'shopify', 'checkr', 'sha256'].map(losesRefused)).toEqual([true, false, false, false]);
});

test('every text is one short sentence', () => {
  for (const { name } of presets)
    expect([name, retriesText(name)]).toEqual([name, expect.stringMatching(/^.{20,300}\.$/)]);
});
