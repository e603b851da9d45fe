import { describe, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, csrfToken } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startTestApp);
const operator = shared(() => addPerson(app, 'operator'));

async function post(body: string | Uint8Array<ArrayBuffer>, contentType = 'application/json') {
  const response = await fetch(`${app.url}/api/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operator.token}`, 'content-type': contentType },
    body,
  });
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  return { status: response.status, body: (await response.json()) as any };
}

const members = (count: number) => `{${Array.from({ length: count }, (_, i) => `"k${i}":0`).join()}}`;

test.each([
  ['ends too early', '{"name":"a"', 'unexpected end of input'],
  ['is a form', 'name=a', 'unexpected byte at position 2'],
  ['has a comma too many', '{"name":"a",}', 'unexpected byte at position 13'],
  ['has a number that begins with 0', '{"name":01}', 'unexpected byte at position 10'],
  ['has a comma too many after a number', '{"name":10,}', 'unexpected byte at position 12'],
  ['is Latin-1', Uint8Array.from(Buffer.from('{"name":"\xe9"}', 'latin1')), 'it is not valid UTF-8'],
  ['holds 10001 values', `[${'0,'.repeat(10_000)}0]`, 'at most 10000 values are allowed'],
  ['holds 90000 unknown members', members(90_000), 'at most 10000 values are allowed'],
  ['is 33 deep', `${'['.repeat(33)}${']'.repeat(33)}`, 'at most 32 levels of objects and arrays are allowed'],
])('a body that %s is reported with the position of the error', async (_what, body, fault) => {
  const answer = await post(body);
  expect([answer.status, answer.body.code, answer.body.detail]).toEqual([
    400,
    'invalid_json',
    `The body must be JSON in UTF-8: ${fault}.`,
  ]);
});

test('a body with 32 levels is validated, with any content type', async () => {
  const { status, body } = await post(`${'['.repeat(32)}${']'.repeat(32)}`, 'text/plain');
  expect([status, body.errors]).toEqual([422, [{ pointer: '', detail: 'Give an object.' }]]);
});

test('a byte order mark before a body is skipped', async () => {
  expect(await post('\ufeff{"name":"marked"}')).toMatchObject({ status: 201, body: { name: 'marked' } });
});

test('an unknown member is reported with the allowed ones', async () => {
  const { body } = await post('{"name":"a","nmae":"b"}');
  expect(body.errors).toEqual([
    {
      pointer: '/nmae',
      detail: expect.stringMatching(/^This field is unknown; allowed: id, name, .*, generate_secret, cell\.$/),
    },
  ]);
});

test('the first 20 of many invalid members are reported, and the others counted', async () => {
  // The missing name, which is required, is one of them.
  const { status, body } = await post(members(10_000));
  expect([status, body.errors.length, body.errors_omitted]).toEqual([422, 20, 9_981]);
});

test('the first 20 of many invalid query parameters are reported, and the others counted', async () => {
  const query = (count: number) => Array.from({ length: count }, (_, i) => `k${i}=`).join('&');
  const errorsOf = async (count: number) => {
    const { body } = await operator.api('GET', `/api/v1/webhooks?${query(count)}`);
    return [body.code, body.errors.length, body.errors_omitted];
  };
  expect(await errorsOf(20)).toEqual(['invalid_request', 20, undefined]);
  expect(await errorsOf(21)).toEqual(['invalid_request', 20, 1]);
});

describe('the body of a form', () => {
  async function send(fields: number, cookie: string) {
    const csrf = cookie === '' ? '' : await csrfToken(app.url, cookie);
    const response = await fetch(`${app.url}/webhooks/new`, {
      method: 'POST',
      headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' },
      body: `csrf=${csrf}${'&a'.repeat(fields - 1)}`,
      redirect: 'manual',
    });
    return [response.status, (await response.text()).includes('The form has more than 2000 fields.')];
  }

  test('can have 2000 fields, and one more is refused', async () => {
    // The name is missing.
    expect(await send(2_000, operator.cookie)).toEqual([422, false]);
    expect(await send(2_001, operator.cookie)).toEqual([422, true]);
  });

  test('without authentication is not parsed', async () => {
    expect(await send(500_000, '')).toEqual([303, false]);
  });
});

test('the body of a request that is refused before it is parsed is released', async () => {
  const response = await fetch(`${app.url}/api/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: 'Bearer wu_unknown', 'content-type': 'application/json' },
    body: members(1_000),
  });
  expect(response.status).toBe(401);
  await until(async () => (await app.metric('weir_body_bytes_held')) === 0);
});
