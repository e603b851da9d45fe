/** Changes for which a session needs the password again, of all operations. Each test uses its own client addresses. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { type OperationName, operationRoutes } from '../../../server/manage/api/routes.ts';
import { ACCOUNT_LIMIT } from '../../../server/manage/auth/throttle.ts';
import { addAgent, startAgentApp } from '../../helpers/agents.ts';
import { ApiDocument } from '../../helpers/openapi.ts';
import { type Answer, addPerson, addToken, PASSWORD, signIn } from '../../helpers/people.ts';
import { ofEach, shared } from '../../helpers/shared.ts';

const app = shared(() => startAgentApp({ TRUSTED_PROXIES: '127.0.0.1' }));
const ada = ofEach(() => addPerson(app, 'administrator', PASSWORD));
const other = ofEach(() => addPerson(app, 'viewer'));
const agent = shared(() => addAgent(app));

let addresses = 0;
const elsewhere = () => ({ 'x-forwarded-for': `192.0.2.${++addresses}` });

type Change = [operation: OperationName, method: string, path: () => string, input: () => object, status: number];
const tokens = () => '/api/v1/tokens';
const cells = () => '/api/v1/cells';
const agents = () => '/api/v1/agents';
const users = () => '/api/v1/users';
const user = () => `/api/v1/users/${other.id}`;
const changes: Change[] = [
  ['createToken', 'POST', tokens, () => ({ name: 'a', role: 'administrator' }), 201],
  ['createAgent', 'POST', agents, () => ({ name: randomUUID() }), 201],
  ['rotateAgent', 'POST', () => `${agents()}/${agent.id}/rotate`, () => ({}), 200],
  ['createUser', 'POST', users, () => ({ email: `${randomUUID()}@example.org`, role: 'viewer' }), 201],
  ['inviteUser', 'POST', () => `${user()}/invitation`, () => ({}), 201],
  ['updateUser', 'PATCH', user, () => ({ role: 'operator' }), 200],
  ['deleteUser', 'DELETE', user, () => ({}), 204],
  // Refused after the password was checked: these need another server.
  ['addCell', 'POST', cells, () => ({ name: 'far', database: 'host=/run' }), 422],
  ['updateCell', 'PATCH', () => `${cells()}/1`, () => ({ name: 'far' }), 404],
  ['removeCell', 'DELETE', () => `${cells()}/1`, () => ({}), 404],
];

/** Changes for which the session is enough, by the reason. A new operation belongs here or among `changes`. */
const withoutStepUp: Record<string, OperationName[]> = {
  'asks for the password itself': ['changePassword', 'signIn', 'setUp', 'acceptInvitation'],
  'takes the credential of an agent, not a session': ['agentSession', 'claim', 'ack', 'nack', 'extend'],
  'takes something away': [
    'signOut',
    'endSessions',
    'endSession',
    'revokeToken',
    'revokeInvitation',
    'revokeAgent',
    'endPreviousSecret',
    'deleteWebhook',
    'cancelJob',
  ],
  'its secret authenticates a sender, and gives no access to Weir': [
    'createWebhook',
    'updateWebhook',
    'rotateSecret',
    'fixRejection',
  ],
  'gives no credential': ['updateAgent', 'setSubscription', 'endSubscription'],
  'moves events between servers of the installation': ['moveWebhook', 'drainCell'],
  'acts once': [
    'testWebhook',
    'testFilter',
    'testAlert',
    'updateIssue',
    'replayEvents',
    'replayEvent',
    'acceptRejections',
    'acceptRejection',
    'recheckRejection',
    'replayDeliveries',
    'replayDelivery',
    'dismissDeliveries',
    'dismissDelivery',
    'undoDeliveries',
    'settleUndelivered',
  ],
};

test('every operation that changes something is in one of the two tables', () => {
  const changing = operationRoutes.filter(([method]) => method !== 'GET').map(([, , name]) => name);
  const listed = [...new Set(changes.map(([name]) => name)), ...Object.values(withoutStepUp).flat()];
  expect(listed.toSorted()).toEqual(changing.toSorted());
});

test('the operations with step-up document it, and no others', async () => {
  const document = new ApiDocument((await ada.api('GET', '/api/v1/openapi.json')).body);
  const documented = document.operations.filter((operation) =>
    document.response(operation, 403).response?.description.includes('`reauthentication_required`'),
  );
  const names = documented.map(({ operationId }) => operationId);
  expect(names.toSorted()).toEqual([...new Set(changes.map(([name]) => name))].toSorted());
});

async function state(): Promise<object[]> {
  return app.sql(`select (select count(*) from audit_log where action not like 'session.%')::int as entries,
             (select count(*) from users)::int as users, (select count(*) from api_tokens)::int as tokens,
             (select string_agg(encode(secret_hash, 'hex'), ' ' order by id) from agents) as agents`);
}

test.each(changes)(
  '%s without the password is refused, and nothing changes',
  async (_, method, path, input, status) => {
    const ask = (given: object): Promise<Answer> => ada.browse(method, path(), { ...input(), ...given }, elsewhere());
    const before = await state();
    const answer = await ask({});
    expect([answer.status, answer.body.code]).toEqual([403, 'reauthentication_required']);
    expect(await state()).toEqual(before);
    expect((await ask({ current_password: PASSWORD })).status).toBe(status);
  },
);

test.each([
  ['no password', {}, /^Give your password again/],
  ['an empty one', { current_password: '' }, /^Give your password again/],
  ['another one', { current_password: 'not the password' }, /^This is not your password/],
])('%s is not sufficient, and the answer says so', async (_which, given, detail) => {
  const answer = await ada.browse('POST', tokens(), { name: 'a', ...given }, elsewhere());
  expect([answer.status, answer.body.code]).toEqual([403, 'reauthentication_required']);
  expect(answer.body.detail).toMatch(detail);
});

test('the password of another user is not sufficient', async () => {
  await addPerson(app, 'administrator', 'a new horse, a new battery');
  const answer = await ada.browse('PATCH', user(), { name: 'x', current_password: 'a new horse, a new battery' });
  expect([answer.status, answer.body.code]).toEqual([403, 'reauthentication_required']);
});

test('guessing is throttled, separately from the sign-in, and recorded', async () => {
  const guess = (password: string) =>
    ada.browse('PATCH', user(), { name: 'x', current_password: password }, elsewhere());
  for (let i = 0; i < ACCOUNT_LIMIT.free; i++) expect((await guess('not the password')).status).toBe(403);
  const { status, body, headers } = await guess(PASSWORD);
  expect([status, body.code, Number(headers.get('retry-after')) > 0]).toEqual([429, 'sign_in_limited', true]);
  expect((await signIn(app, ada.email, PASSWORD, elsewhere())).status).toBe(200);
  const entries = await app.sql(
    `select entry -> 'actor' ->> 'kind' as kind, entry -> 'after' -> 'failures' as failures
           from audit_log where action = 'session.sign_in_failed' and target_id = $1 order by number`,
    ada.id,
  );
  expect(entries).toEqual([
    { kind: 'user', failures: 1 },
    { kind: 'user', failures: ACCOUNT_LIMIT.free },
  ]);
});

test('a reset revokes the tokens of the user and returns their number; with revoke_tokens false they stay valid', async () => {
  await addToken(app, other, 'viewer');
  const reset = (input: object) =>
    ada.browse('PATCH', user(), { password: 'a new horse, a new battery', current_password: PASSWORD, ...input });
  expect((await reset({ revoke_tokens: false })).body.revoked_tokens).toBe(0);
  expect((await other.api('GET', '/api/v1/account')).status).toBe(200);
  const renamed = await ada.browse('PATCH', user(), { name: 'x', current_password: PASSWORD });
  expect(renamed.body.revoked_tokens).toBe(0);
  const { body, headers } = await reset({});
  expect(body.revoked_tokens).toBe(2);
  expect((await other.api('GET', '/api/v1/account')).status).toBe(401);
  expect((await ada.api('GET', user())).headers.get('etag')).toBe(headers.get('etag'));
});

test('a refused password does not use up the Idempotency-Key, and a repeated request gets the same response', async () => {
  const input = { name: 'once', role: 'administrator' };
  const key = { 'idempotency-key': randomUUID() };
  const ask = (password: string) => ada.browse('POST', tokens(), { ...input, current_password: password }, key);
  expect((await ask('not the password')).status).toBe(403);
  const made = await ask(PASSWORD);
  expect(made.status).toBe(201);
  expect((await ask(PASSWORD)).text).toBe(made.text);
  // The stored response contains the token.
  expect((await ask('not the password')).status).toBe(403);
});
