/** Every limit of a claim and of a settlement: at the limit and one over. */
import { expect, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startAgentApp({ WEBHOOK_MAX_PAYLOAD_BYTES: 2_097_152 }));
const agent = shared(() => addAgent(app));

const uuid = '00000000-0000-4000-8000-000000000000';

test.each<[string, object]>([
  ['nothing at all', {}],
  ['the least', { max: 1, lease_seconds: 5, wait_seconds: 0 }],
  ['the most', { max: 1000, lease_seconds: 3600, webhook_ids: Array.from({ length: 1000 }, () => uuid) }],
])('%s is accepted', async (_what, order) => {
  expect(await agent.post('claim', order)).toMatchObject({ status: 200, body: { deliveries: [] } });
});

test.each<[string, object, string]>([
  ['no delivery', { max: 0 }, '/max'],
  ['one delivery too many', { max: 1001 }, '/max'],
  ['half a delivery', { max: 1.5 }, '/max'],
  ['a count in words', { max: '10' }, '/max'],
  ['a lease too short', { lease_seconds: 4 }, '/lease_seconds'],
  ['a lease too long', { lease_seconds: 3601 }, '/lease_seconds'],
  ['a wait before now', { wait_seconds: -1 }, '/wait_seconds'],
  ['a wait too long', { wait_seconds: 31 }, '/wait_seconds'],
  ['a webhook that is not an id', { webhook_ids: [uuid, 'x'] }, '/webhook_ids/1'],
  ['webhooks too many', { webhook_ids: Array.from({ length: 1001 }, () => uuid) }, '/webhook_ids'],
  ['an unknown member', { maximum: 1 }, '/maximum'],
  ['a list', [], ''],
])('%s is 422 with a pointer', async (_what, order, pointer) => {
  const { status, body } = await agent.post('claim', order);
  expect([status, body.code]).toEqual([422, 'invalid_request']);
  expect(body.errors).toEqual([{ pointer, detail: expect.any(String) }]);
});

test('all errors are reported at once', async () => {
  const { body } = await agent.post('claim', { max: 0, lease_seconds: 0, wait_seconds: 99 });
  expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
    '/max',
    '/lease_seconds',
    '/wait_seconds',
  ]);
});

test.each([
  ['invalid receipts', 'ack', {}, '/receipts'],
  ['an empty list of receipts', 'ack', { receipts: [] }, '/receipts'],
  ['receipts too many', 'ack', { receipts: Array.from({ length: 1001 }, () => 'x') }, '/receipts'],
  ['a receipt too long', 'ack', { receipts: ['x'.repeat(101)] }, '/receipts/0'],
  ['a receipt that is a number', 'nack', { receipts: ['x', 1] }, '/receipts/1'],
  ['a delay before now', 'nack', { receipts: ['x'], delay_seconds: -1 }, '/delay_seconds'],
  ['a delay of more than a day', 'nack', { receipts: ['x'], delay_seconds: 86_401 }, '/delay_seconds'],
  ['no lease', 'extend', { receipts: ['x'] }, '/lease_seconds'],
  ['a lease too short', 'extend', { receipts: ['x'], lease_seconds: 4 }, '/lease_seconds'],
  ['a lease too long', 'extend', { receipts: ['x'], lease_seconds: 3601 }, '/lease_seconds'],
] as const)('%s at %s is 422 with a pointer', async (_what, action, order, pointer) => {
  const { status, body } = await agent.post(action, order);
  expect([status, body.errors]).toEqual([422, [{ pointer, detail: expect.any(String) }]]);
});

test('1000 receipts, a day and 500 characters are accepted', async () => {
  const receipts = Array.from({ length: 1000 }, () => 'x'.repeat(100));
  const order = { receipts, delay_seconds: 86_400, reason: 'ß'.repeat(500) };
  expect(await agent.post('nack', order)).toMatchObject({ status: 200, body: { done: [], gone: receipts } });
});

test('the bodies of a response are limited to 16 MiB, except the first one', async () => {
  const webhook = await app.addWebhook();
  const other = await addAgent(app, [webhook]);
  const body = Buffer.alloc(2_097_152, 'x');
  await Promise.all(Array.from({ length: 9 }, () => send(webhook, body)));
  expect(await other.claim({ max: 100 })).toHaveLength(8);
  expect(await other.claim({ max: 100 })).toHaveLength(1);
});
