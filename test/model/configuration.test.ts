import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { expect, test } from 'vitest';
import { agentFields } from '../../server/model/agents.ts';
import { configurationJsonSchema, configured } from '../../server/model/configuration.ts';
import { webhookFields } from '../../server/model/webhooks.ts';

test('a webhook and an agent have all their members but those of one installation, and a pause', () => {
  const settable = (table: object) =>
    Object.entries(table).flatMap(([name, field]) => ('input' in field ? [name] : []));
  const notThere = (table: object, kind: keyof typeof configured) =>
    settable(table).filter((name) => !(name in configured[kind]));
  expect(notThere(webhookFields, 'webhook').sort()).toEqual(
    ['agent_ids', 'cell', 'generate_secret', 'id', 'secret', 'verify_token'].sort(),
  );
  expect(notThere(agentFields, 'agent').sort()).toEqual(['id', 'paused', 'temporary', 'webhook_ids']);
});

test('the JSON Schema accepts a configuration, and names what is wrong in another', () => {
  const ajv = new Ajv({ strict: false });
  (addFormats as unknown as (ajv: Ajv) => void)(ajv);
  const validate = ajv.compile(configurationJsonSchema());
  const id = '2f1c0d7e-8a3b-4c5d-9e6f-0a1b2c3d4e5f';
  expect(
    validate({
      version: 1,
      webhooks: [{ id, name: 'a', signature_scheme: 'github', secret: { env: 'A' } }],
      agents: [{ id, name: 'b', max_leased: 1, subscriptions: [{ webhook: id, filter: 'bytes > 1' }] }],
    }),
  ).toBe(true);
  for (const wrong of [
    {},
    { version: 1, webhooks: [{ id }] },
    { version: 1, webhooks: [{ id, name: 'a', secret: 'plain' }] },
    { version: 1, webhooks: [{ id, name: 'a', signature_scheme: 'nobody' }] },
    { version: 1, agents: [{ id, name: 'a', max_leased: 0 }] },
    { version: 1, agents: [{ id, name: 'a', subscriptions: [{ webhook: 'x' }] }] },
    { version: 1, tokens: [] },
  ])
    expect(validate(wrong), JSON.stringify(wrong)).toBe(false);
});
