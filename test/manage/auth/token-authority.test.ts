/** What an API token can change of its own user: itself and the tokens that it created. */
import { beforeAll, describe, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { type Answer, addPerson, addToken, PASSWORD, request, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
let owner: TestPerson;
beforeAll(async () => {
  // One administrator always remains.
  await addPerson(app, 'administrator');
});

type Token = { id: string; token: string };

const by = (token: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  request(app.url + path, method, body, { authorization: `Bearer ${token}` });

async function create(token: string, input: object = {}): Promise<Token> {
  const { status, body } = await by(token, 'POST', '/api/v1/tokens', { name: 'ci', role: 'viewer', ...input });
  expect(status).toBe(201);
  return body;
}

const isActive = async ({ token }: { token: string }) => (await by(token, 'GET', '/api/v1/account')).status === 200;

/** Changes that require a session of the owner, for any role of the token. */
const harms: [what: string, act: (token: string, other: Token) => Promise<Answer>][] = [
  ['revoke another token of its user', (token, other) => by(token, 'DELETE', `/api/v1/tokens/${other.id}`)],
  ['end all sessions of its user', (token) => by(token, 'DELETE', '/api/v1/account/sessions')],
  ['end one session of its user', (token) => by(token, 'DELETE', `/api/v1/account/sessions/${owner.sessionId}`)],
  ['list the sessions of its user', (token) => by(token, 'GET', '/api/v1/account/sessions')],
  [
    'change the password of its user',
    (token) =>
      by(token, 'POST', '/api/v1/account/password', {
        current_password: PASSWORD,
        new_password: 'a new horse, a new battery',
      }),
  ],
];

describe.each(['viewer', 'operator', 'administrator'] as const)('a token of role %s', (role) => {
  beforeAll(async () => {
    owner = await addPerson(app, 'administrator', PASSWORD);
  });

  test.each(harms)('cannot %s', async (_what, act) => {
    const [token, other] = [await addToken(app, owner, role), await addToken(app, owner, 'administrator')];
    const { status, body } = await act(token.token, other);
    expect([status, body.code]).toEqual([403, 'session_required']);
    expect(await isActive(other)).toBe(true);
    expect((await owner.browse('GET', '/api/v1/account')).status).toBe(200);
  });

  test('revokes itself and the tokens that it created, also indirectly', async () => {
    const token = await addToken(app, owner, role);
    const child = await create(token.token);
    const grandchild = await create(child.token);
    expect((await by(token.token, 'DELETE', `/api/v1/tokens/${grandchild.id}`)).status).toBe(204);
    expect([await isActive(child), await isActive(grandchild)]).toEqual([true, false]);
    expect((await by(child.token, 'DELETE', `/api/v1/tokens/${token.id}`)).body.code).toBe('session_required');
    expect((await by(token.token, 'DELETE', `/api/v1/tokens/${token.id}`)).status).toBe(204);
    expect([await isActive(token), await isActive(child)]).toEqual([false, false]);
  });

  test.each([
    ['administrator', { role: 'administrator' }],
    ['endless', { role: 'viewer', expires_in_days: null }],
    ['endless, by time', { role: 'viewer', expires_at: null }],
  ])('cannot create a token that is %s', async (_what, input) => {
    const { token } = await addToken(app, owner, role);
    const { status, body } = await by(token, 'POST', '/api/v1/tokens', { name: 'ci', ...input });
    if (role !== 'administrator' && input.role === 'administrator')
      expect([status, body.errors[0].pointer]).toEqual([422, '/role']);
    else expect([status, body.code]).toEqual([403, 'session_required']);
  });
});

test.each([
  ['name', { name: 'x' }],
  ['role', { role: 'viewer' }],
  ['disabled', { disabled: true }],
])('a token of an administrator cannot change the %s of its own user, and cannot delete it', async (_what, input) => {
  const person = await addPerson(app, 'administrator');
  for (const [method, body] of [
    ['PATCH', input],
    ['DELETE', undefined],
  ] as const) {
    const answer = await person.api(method, `/api/v1/users/${person.id}`, body);
    expect([answer.status, answer.body.code]).toEqual([403, 'session_required']);
  }
});

test('a token of an administrator manages other users and revokes their tokens; a token with a lower role cannot', async () => {
  const [person, other] = [await addPerson(app, 'administrator'), await addPerson(app, 'operator')];
  const lesser = await addToken(app, person, 'viewer');
  const theirs = await create(other.token);
  const path = `/api/v1/users/${other.id}`;
  expect((await by(lesser.token, 'PATCH', path, { name: 'x' })).body.code).toBe('forbidden');
  expect((await by(lesser.token, 'DELETE', `/api/v1/tokens/${theirs.id}`)).body.code).toBe('token_unknown');
  expect((await person.api('PATCH', path, { role: 'viewer' })).body.role).toBe('viewer');
  expect((await person.api('GET', `/api/v1/tokens/${theirs.id}`)).body).toMatchObject({ user_id: other.id });
  expect((await person.api('DELETE', `/api/v1/tokens/${theirs.id}`)).status).toBe(204);
  expect((await person.api('DELETE', path)).status).toBe(204);
});
