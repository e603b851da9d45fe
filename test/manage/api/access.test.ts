/**
 * Every operation by each requester: who may call it, the exact answer, which the OpenAPI document describes, and that a cookie alone
 * changes nothing. See also csrf.test.ts.
 */
import { beforeAll, expect, test } from 'vitest';
import { type OperationName, operationRoutes, userRoutes } from '../../../server/manage/api/routes.ts';
import { type Role, roles } from '../../../server/model/users.ts';
import { addAgent } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { weirJson } from '../../helpers/command.ts';
import { ApiDocument, receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, csrfToken, request, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const allowedPage = 'https://console.example.org';
const app = shared(() => startTestApp({ CORS_ORIGINS: allowedPage }));
const agent = shared(() => addAgent(app));
let people: Record<Role, TestPerson>;
let api: ApiDocument;
beforeAll(async () => {
  const made = await Promise.all(roles.map((role) => addPerson(app, role)));
  people = Object.fromEntries(made.map((person) => [person.role, person])) as typeof people;
  api = new ApiDocument(await (await fetch(`${app.url}/api/v1/openapi.json`)).json());
});

/** Answers to an API token of the lowest role, an unknown id and an empty document, where they are not those of `answerOf`. */
const byToken: Partial<Record<OperationName, string>> = {
  signOut: '404 session_unknown',
  listSessions: '403 session_required',
  endSessions: '403 session_required',
  endSession: '403 session_required',
  changePassword: '403 session_required',
  moveWebhook: '422 invalid_request',
  replayEvents: '422 no_recipients',
  fixRejection: '422 invalid_request',
  testAlert: '409 alert_url_unset',
  dismissDeliveries: '200',
};

/** The answer with a session, where it differs from that with a token. */
const bySession: typeof byToken = {
  signOut: '204',
  listSessions: '200',
  endSessions: '204',
  endSession: '404 session_unknown',
  changePassword: '422 invalid_request',
  rotateAgent: '403 reauthentication_required',
  inviteUser: '403 reauthentication_required',
  updateUser: '403 reauthentication_required',
  deleteUser: '403 reauthentication_required',
};

/** Whom an operation admits, unless viewers may GET and operators may change: not derived, so that a role lowered by mistake fails here. */
const exceptions: Readonly<Record<string, string>> = {
  anyone: 'showOpenApi showConfigurationSchema setUp acceptInvitation signIn listSchemes',
  'agent credential': 'agentSession',
  agent: 'agentMe claim ack nack extend',
  'viewer or agent':
    'listWebhooks showWebhook listEvents showEvent showEventBody listDeliveries showDelivery listAttempts',
  viewer: 'signOut endSessions endSession changePassword createToken revokeToken',
  operator: 'showStatus',
  administrator:
    'moveWebhook addCell updateCell removeCell drainCell listAudit exportAudit verifyAudit listUsers createUser showUser updateUser deleteUser inviteUser revokeInvitation',
};

test('each operation admits whom it is meant for', () => {
  const listed = (name: string) =>
    Object.keys(exceptions).find((access) => exceptions[access]!.split(' ').includes(name));
  const meant = operationRoutes.map(([method, , name]) => [
    name,
    listed(name) ?? ((method as string) === 'GET' ? 'viewer' : 'operator'),
  ]);
  expect(operationRoutes.map(([, , name, access]) => [name, access])).toEqual(meant);
});

const unknownId = '00000000-0000-7000-8000-000000000000';
/** Each is answered like an id that nothing has. */
const noIds = [
  'nonsense',
  'ffffffff-ffff-7fff-bfff-ffffffffffff',
  `${unknownId}0`,
  '%00',
  encodeURIComponent("' or 1=1 --"),
];
const rows = userRoutes.map(([method, path, name, access]) => ({
  method,
  path: path.replace(/:\w+/g, unknownId),
  name,
  access,
  changes: (method as string) !== 'GET',
}));
type Row = (typeof rows)[number];

function answerOf({ name, path, changes }: Row): string {
  const [, kind] = /^\/api\/v1\/(\w+?)(?:s|ies)\//.exec(path) ?? [];
  const usual = path.includes(unknownId) ? `404 ${kind === 'deliver' ? 'delivery' : kind}_unknown` : '200';
  return byToken[name] ?? (changes && usual === '200' ? '422 invalid_request' : usual);
}

/** The status and the code of the problem. */
async function ask(
  { method, path, name, changes }: Row,
  headers: Record<string, string>,
  body = '{}',
): Promise<string> {
  const answer = await receiveAnswer(app.url + path, { method, headers, ...(changes ? { body } : {}) });
  expect(api.faults(api.operation(name), answer)).toEqual([]);
  const { code } = (answer.body ?? {}) as { code?: string };
  return code === undefined ? `${answer.status}` : `${answer.status} ${code}`;
}
const bearer = ({ token }: { token: string }) => ({ authorization: `Bearer ${token}` });

test.each(rows.filter(({ access }) => access !== 'anyone'))(
  'an operation for users: $method $path, allowed: $access',
  async (row) => {
    const isMixed = row.access === 'viewer or agent';
    const needed = isMixed ? 'viewer' : (row.access as Role);
    const [lower, higher] = [-1, 1].map((step) => roles[roles.indexOf(needed) + step]);
    // Each row has its own person, because some of these operations end the session.
    const { cookie } = await addPerson(app, needed);
    const withToken = { cookie, 'x-csrf-token': await csrfToken(app.url, cookie), origin: allowedPage };
    const usual = answerOf(row);
    const ofSession = bySession[row.name] ?? usual;
    const reported = {
      anonymous: await ask(row, {}),
      agent: isMixed || [await ask(row, bearer(agent)), await ask(row, bearer({ token: agent.credential }))],
      lower: lower && (await ask(row, bearer(people[lower]))),
      token: await ask(row, bearer(people[needed])),
      higher: higher && (await ask(row, bearer(people[higher]))),
      cookieAlone: await ask(row, { cookie }),
      cookie: await ask(row, withToken),
    };
    expect(reported).toEqual({
      anonymous: isMixed ? '401 agent_unauthenticated' : '401 unauthenticated',
      agent: isMixed || ['401 unauthenticated', '401 unauthenticated'],
      lower: lower && '403 forbidden',
      token: usual,
      higher: higher && usual,
      cookieAlone: row.changes ? '403 csrf_refused' : ofSession,
      cookie: ofSession,
    });
    for (const body of ['{', '{"no_such_member":1}'])
      if (row.changes) expect(await ask(row, bearer(people[needed]), body)).toMatch(/^[24]/);
    // The id of a condition has a form of its own, and some operations look at their input first.
    if (row.path.includes(unknownId) && usual.startsWith('404'))
      for (const id of noIds)
        expect([id, await ask({ ...row, path: row.path.replaceAll(unknownId, id) }, bearer(people[needed]))]).toEqual([
          id,
          usual,
        ]);
  },
);

test.each(rows.filter(({ access }) => access === 'anyone'))('$method $path, allowed: anyone', async (row) => {
  const reported = [await ask(row, {}), await ask(row, { origin: 'https://elsewhere.example' })];
  expect(reported).toEqual([answerOf(row), row.changes ? '403 csrf_refused' : answerOf(row)]);
});

test('a mixed route names the credentials of users and of agents', async () => {
  const { status, body } = await request(`${app.url}/api/v1/webhooks`, 'GET', undefined, {});
  expect([status, body.code, body.detail]).toEqual([
    401,
    'agent_unauthenticated',
    expect.stringMatching(/^Sign in, .* API token, an agent credential or an active agent session/),
  ]);
});

test('a session and a token of the same user are distinguished', async () => {
  const operator = await addPerson(app, 'operator');
  expect((await operator.api('GET', '/api/v1/account')).body).toMatchObject({ role: 'operator', csrf_token: null });
  expect((await operator.browse('GET', '/api/v1/account')).body.csrf_token).toMatch(/^[\w-]{43}$/);
});

/** The requester of commands on the machine of Weir: no HTTP input can name it. */
const claims = Buffer.from(JSON.stringify({ via: { kind: 'local' }, role: 'administrator' })).toString('base64url');

test.each<[string, Record<string, string>]>([
  ['a bearer token', { authorization: 'Bearer local' }],
  ['a JWT without a signature', { authorization: `Bearer eyJhbGciOiJub25lIn0.${claims}.` }],
  ['a password', { authorization: `Basic ${Buffer.from('local:').toString('base64')}` }],
  ['a cookie', { cookie: 'weir_session=local; __Host-weir_session=local' }],
  ['a user agent', { 'user-agent': 'weir/local', 'x-requester': 'local', via: 'local' }],
  ['a forwarded address', { 'x-forwarded-for': '127.0.0.1', forwarded: 'for=127.0.0.1;by=local' }],
])('%s that says "local" does not sign in', async (_what, headers) => {
  const { status, body } = await request(`${app.url}/api/v1/audit`, 'GET', undefined, headers);
  expect([status, body.code]).toEqual([401, 'unauthenticated']);
});

test.each([
  ['owner', { id: '', email: '', name: 'root', role: 'administrator' }],
  ['via', { kind: 'local' }],
  ['requester', 'local'],
  ['user_id', '00000000-0000-4000-8000-000000000000'],
])('the member %s of an input is unknown', async (member, value) => {
  const { status, body } = await people.operator.api('POST', '/api/v1/tokens', { name: 'a', [member]: value });
  expect([status, body.errors[0].pointer]).toEqual([422, `/${member}`]);
});

test('a change over HTTP is recorded as one of its user, and one of a command as one of a command', async () => {
  const { body } = await people.administrator.api('POST', '/api/v1/agents', { name: 'by the API' });
  const made = await weirJson(app, 'agent', 'add', '--name', 'by a command');
  const kinds = async (id: string) =>
    (await weirJson(app, 'audit', 'list', '--target', id)).items.map(
      (entry: { actor: { kind: string } }) => entry.actor.kind,
    );
  expect([await kinds(body.id), await kinds(made.id)]).toEqual([['token'], ['command']]);
});
