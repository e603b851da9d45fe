/** The requester of commands on the machine of Weir: no HTTP input can name it. */
import { beforeAll, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { weirJson } from '../../helpers/command.ts';
import { addPerson, request, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
let operator: TestPerson;
let administrator: TestPerson;
beforeAll(async () => {
  [operator, administrator] = [await addPerson(app, 'operator'), await addPerson(app, 'administrator')];
});

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
  const { status, body } = await operator.api('POST', '/api/v1/tokens', { name: 'a', [member]: value });
  expect([status, body.errors[0].pointer]).toEqual([422, `/${member}`]);
});

test('a change over HTTP is recorded as one of its user, and one of a command as one of a command', async () => {
  const { body } = await administrator.api('POST', '/api/v1/agents', { name: 'by the API' });
  const made = await weirJson(app, 'agent', 'add', '--name', 'by a command');
  const kinds = async (id: string) =>
    (await weirJson(app, 'audit', 'list', '--target', id)).items.map(
      (entry: { actor: { kind: string } }) => entry.actor.kind,
    );
  expect([await kinds(body.id), await kinds(made.id)]).toEqual([['token'], ['command']]);
});
