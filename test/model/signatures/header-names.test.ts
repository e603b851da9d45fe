/** Names of headers in the input of a webhook: those that no request can have are refused. */
import { describe, expect, test } from 'vitest';
import { webhookInput } from '../../../server/model/webhooks.ts';

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
