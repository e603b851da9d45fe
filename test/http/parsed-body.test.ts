import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestApp } from '../helpers/app.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let operator: TestPerson;
beforeAll(async () => {
  app = await startTestApp();
  operator = await addPerson(app, 'operator');
});
afterAll(() => app.stop());

async function post(body: string | Uint8Array<ArrayBuffer>, contentType = 'application/json') {
  const response = await fetch(`${app.url}/api/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operator.token}`, 'content-type': contentType },
    body,
  });
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  return { status: response.status, body: (await response.json()) as any };
}

test.each([
  ['ends too early', '{"name":"a"', 'it ends too early'],
  ['is a form', 'name=a', 'no JSON can go on like this at byte 2'],
  ['has a comma too many', '{"name":"a",}', 'no JSON can go on like this at byte 13'],
  ['is Latin-1', Uint8Array.from(Buffer.from('{"name":"\xe9"}', 'latin1')), 'it is not UTF-8'],
  ['is 33 deep', `${'['.repeat(33)}${']'.repeat(33)}`, 'nothing may stand in more than 32 objects and arrays'],
])('a body that %s is told where it is no JSON', async (_what, body, fault) => {
  const answer = await post(body);
  expect([answer.status, answer.body.code, answer.body.detail]).toEqual([
    400,
    'invalid_json',
    `The body must be JSON in UTF-8: ${fault}.`,
  ]);
});

test('a body that is 32 deep is judged by what it says, whatever its content type', async () => {
  const { status, body } = await post(`${'['.repeat(32)}${']'.repeat(32)}`, 'text/plain');
  expect([status, body.errors]).toEqual([422, [{ pointer: '', detail: 'Give an object.' }]]);
});

test('a member that nobody knows is told with those that there are', async () => {
  const { body } = await post('{"name":"a","nmae":"b"}');
  expect(body.errors).toEqual([
    {
      pointer: '/nmae',
      detail: expect.stringMatching(/^This is not known here; known are name, .*, generate_secret\.$/),
    },
  ]);
});
