/** Every operation by each role: who may call it, the exact answer, and that a cookie alone changes nothing. See also csrf.test.ts. */
import { beforeAll, describe, expect, test } from 'vitest';
import { userRoutes } from '../../../server/manage/api/routes.ts';
import { type Role, roles } from '../../../server/model/users.ts';
import { startTestApp } from '../../helpers/app.ts';
import { receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, csrfToken, request, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

type OperationName = (typeof userRoutes)[number][2];

const allowedPage = 'https://console.example.org';
const app = shared(() => startTestApp({ CORS_ORIGINS: allowedPage }));
let people: Record<Role, TestPerson>;
beforeAll(async () => {
  const made = await Promise.all(roles.map((role) => addPerson(app, role)));
  people = Object.fromEntries(made.map((person) => [person.role, person])) as typeof people;
});

/** Answer to the lowest role that is allowed, with an API token, an unknown id and an empty document. */
const answers: Record<OperationName, string> = {
  showOpenApi: '200',
  showConfigurationSchema: '200',
  setUp: '422 invalid_request',
  acceptInvitation: '422 invalid_request',
  signIn: '422 invalid_request',
  signOut: '404 session_unknown',
  showAccount: '200',
  listSessions: '403 session_required',
  endSessions: '403 session_required',
  endSession: '403 session_required',
  changePassword: '403 session_required',
  listSchemes: '200',
  listWebhooks: '200',
  createWebhook: '422 invalid_request',
  listWebhookActivity: '200',
  listWebhookUsage: '200',
  showWebhook: '404 webhook_unknown',
  updateWebhook: '404 webhook_unknown',
  deleteWebhook: '404 webhook_unknown',
  rotateSecret: '404 webhook_unknown',
  endPreviousSecret: '404 webhook_unknown',
  listEventTypes: '404 webhook_unknown',
  listSecrets: '404 webhook_unknown',
  listRequests: '404 webhook_unknown',
  testWebhook: '404 webhook_unknown',
  moveWebhook: '422 invalid_request',
  listCells: '200',
  addCell: '422 invalid_request',
  updateCell: '404 cell_unknown',
  removeCell: '404 cell_unknown',
  drainCell: '404 cell_unknown',
  listAgents: '200',
  createAgent: '422 invalid_request',
  listAgentActivity: '200',
  showAgent: '404 agent_unknown',
  showBacklog: '404 agent_unknown',
  listAgentWebhooks: '404 agent_unknown',
  updateAgent: '404 agent_unknown',
  setSubscription: '404 agent_unknown',
  endSubscription: '404 agent_unknown',
  testFilter: '422 invalid_request',
  revokeAgent: '404 agent_unknown',
  settleUndelivered: '404 agent_unknown',
  rotateAgent: '404 agent_unknown',
  listEvents: '200',
  countEvents: '200',
  exportEvents: '200',
  countEventDeliveries: '200',
  showEvent: '404 event_unknown',
  showEventBody: '404 event_unknown',
  replayEvent: '404 event_unknown',
  replayEvents: '422 no_recipients',
  listJobs: '200',
  showJob: '404 job_unknown',
  cancelJob: '404 job_unknown',
  listRejections: '200',
  listRejectionGroups: '200',
  acceptRejections: '422 invalid_request',
  fixRejection: '422 invalid_request',
  showRejection: '404 rejection_unknown',
  showRejectionBody: '404 rejection_unknown',
  recheckRejection: '404 rejection_unknown',
  acceptRejection: '404 rejection_unknown',
  listIssues: '200',
  showIssue: '404 issue_unknown',
  updateIssue: '404 issue_unknown',
  listAlerts: '200',
  testAlert: '409 alert_url_unset',
  showHistory: '200',
  listWebhookHistory: '200',
  listLatency: '200',
  listOutages: '200',
  showCounters: '200',
  showStatus: '200',
  stream: '200',
  listDeliveries: '200',
  countDeliveries: '200',
  groupDeadLetters: '200',
  replayDeliveries: '422 invalid_request',
  dismissDeliveries: '200',
  undoDeliveries: '422 invalid_request',
  showDelivery: '404 delivery_unknown',
  listAttempts: '404 delivery_unknown',
  replayDelivery: '404 delivery_unknown',
  dismissDelivery: '404 delivery_unknown',
  listTokens: '200',
  createToken: '422 invalid_request',
  showToken: '404 token_unknown',
  revokeToken: '404 token_unknown',
  listAudit: '200',
  exportAudit: '200',
  verifyAudit: '200',
  listUsers: '200',
  createUser: '422 invalid_request',
  inviteUser: '404 user_unknown',
  revokeInvitation: '404 user_unknown',
  showUser: '404 user_unknown',
  updateUser: '404 user_unknown',
  deleteUser: '404 user_unknown',
};

/** The answer with a session, where it differs from that with a token. */
const bySession: Partial<typeof answers> = {
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

/** The status and the code of the problem. */
async function ask({ method, path, changes }: Row, headers: Record<string, string>): Promise<string> {
  const { status, body } = await receiveAnswer(app.url + path, { method, headers, ...(changes ? { body: '{}' } : {}) });
  const { code } = (body ?? {}) as { code?: string };
  return code === undefined ? `${status}` : `${status} ${code}`;
}
const bearer = ({ token }: TestPerson) => ({ authorization: `Bearer ${token}` });

describe('an operation for users', () => {
  test.each(rows.filter(({ access }) => access !== 'anyone'))('$method $path, allowed: $access', async (row) => {
    const needed = row.access === 'viewer or agent' ? 'viewer' : (row.access as Role);
    const lower = roles[roles.indexOf(needed) - 1];
    // Each row has its own person, because some of these operations end the session.
    const { cookie } = await addPerson(app, needed);
    const withToken = { cookie, 'x-csrf-token': await csrfToken(app.url, cookie), origin: allowedPage };
    const ofSession = bySession[row.name] ?? answers[row.name];
    const reported = {
      anonymous: await ask(row, {}),
      lower: lower && (await ask(row, bearer(people[lower]))),
      token: await ask(row, bearer(people[needed])),
      cookieAlone: await ask(row, { cookie }),
      cookie: await ask(row, withToken),
    };
    expect(reported).toEqual({
      anonymous: row.access === 'viewer or agent' ? '401 agent_unauthenticated' : '401 unauthenticated',
      lower: lower && '403 forbidden',
      token: answers[row.name],
      cookieAlone: row.changes ? '403 csrf_refused' : ofSession,
      cookie: ofSession,
    });
    // The id of a condition has a form of its own, and some operations look at their input first.
    if (row.path.includes(unknownId) && answers[row.name].startsWith('404'))
      for (const id of noIds)
        expect([id, await ask({ ...row, path: row.path.replaceAll(unknownId, id) }, bearer(people[needed]))]).toEqual([
          id,
          answers[row.name],
        ]);
  });
});

test.each(rows.filter(({ access }) => access === 'anyone'))('$method $path, allowed: anyone', async (row) => {
  const reported = [await ask(row, {}), await ask(row, { origin: 'https://elsewhere.example' })];
  expect(reported).toEqual([answers[row.name], row.changes ? '403 csrf_refused' : answers[row.name]]);
});

test.each<[Role, OperationName[]]>([
  ['viewer', ['showAccount']],
  ['operator', ['showAccount', 'createWebhook']],
  ['administrator', ['showAccount', 'createWebhook', 'listUsers']],
])('%s has the permissions of lower roles', async (role, permitted) => {
  for (const name of ['showAccount', 'createWebhook', 'listUsers'] as const) {
    const reported = await ask(rows.find((row) => row.name === name)!, bearer(people[role]));
    expect([name, reported]).toEqual([name, permitted.includes(name) ? answers[name] : '403 forbidden']);
  }
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
