/** Headers of a test request, and an event that is edited and sent again by its page. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startAgentApp } from '../../../helpers/agents.ts';
import type { TestApp } from '../../../helpers/app.ts';
import { addPerson, type TestPerson } from '../../../helpers/people.ts';

let app: TestApp;
let operator: TestPerson;
beforeAll(async () => {
  app = await startAgentApp();
  operator = await addPerson(app, 'operator');
});
afterAll(() => app.stop());

const sendTest = async (input: object) => {
  const { id } = await app.addWebhook();
  return operator.api('POST', `/api/v1/webhooks/${id}/test`, input);
};

test('headers of a test request are stored with the event, and do not replace those of the signature', async () => {
  const headers = { 'X-Kind': 'order', 'x-hub-signature-256': 'sha256=00' };
  const { body } = await sendTest({ body: '{"a":1}', headers });
  expect(body.status).toBe(202);
  const event = (await operator.api('GET', `/api/v1/events/${body.answer.id}`)).body;
  expect(event.headers).toMatchObject({ 'x-kind': 'order', 'content-type': 'application/json' });
});

test.each([
  ['of the connection', { 'content-length': '1' }],
  ['of proxies', { 'X-Forwarded-For': '192.0.2.1' }],
  ['with a line end', { 'x-a': 'b\r\nx-c: d' }],
  ['that are not names', { 'x a': 'b' }],
])('headers %s are refused in a test request', async (_what, headers) => {
  const { status, body } = await sendTest({ headers });
  expect([status, body.code]).toEqual([422, 'invalid_request']);
});
