import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OperationAccess, operationRoutes } from '../../server/api/routes.ts';
import { roles } from '../../server/resources/users.ts';
import { startTestApp, type TestApp } from '../helpers/app.ts';
import { addPerson, request, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let people: Record<string, TestPerson>;
beforeAll(async () => {
  app = await startTestApp();
  const made = await Promise.all(roles.map((role) => addPerson(app, role)));
  people = Object.fromEntries(made.map((person) => [person.role, person]));
});
afterAll(() => app.stop());

/** A path of the route with an id that nothing has. */
const pathOf = (path: string) => path.replace(':id', '00000000-0000-7000-8000-000000000000');

/** Who may do what: every route by every role, as the route table says. */
const rows = operationRoutes.flatMap(([method, path, name, access]) =>
  roles.map((role) => ({ method, path, name, role, permitted: permits(role, access) })),
);

/** Sessions and the password of the requester: by cookie alone. */
const ofOwnAccount = new Set<string>(['listSessions', 'endSessions', 'endSession', 'changePassword']);

function permits(role: string, access: OperationAccess): boolean {
  if (access === 'anyone' || access === 'viewer' || access === 'viewer or agent') return true;
  return access === 'operator' ? role !== 'viewer' : role === 'administrator';
}

describe('the table of privileges', () => {
  test.each(rows)('$method $path by a $role: $permitted', async ({ method, path, name, role, permitted }) => {
    const input = method === 'GET' ? undefined : {};
    // The stream has no end: its head alone.
    const asked = [path.endsWith('/stream') ? 'HEAD' : method, pathOf(path), input] as const;
    const { status, body } = await people[role]!.api(...asked);
    if (ofOwnAccount.has(name)) {
      expect([status, body.code]).toEqual([403, 'session_required']);
      // A person of its own: it may end its sessions.
      expect([401, 403]).not.toContain((await (await addPerson(app, role)).browse(...asked)).status);
    } else if (permitted) expect([401, 403]).not.toContain(status);
    else expect([status, body.code]).toEqual([403, 'forbidden']);
  });

  test.each(operationRoutes.map(([method, path, , access]) => ({ method, path, access })))(
    '$method $path by nobody, where $access may',
    async ({ method, path, access }) => {
      const { status } = await request(app.url + pathOf(path), method, method === 'GET' ? undefined : {}, {});
      if (access === 'anyone') expect([401, 403, 429]).not.toContain(status);
      else expect([401, 429]).toContain(status);
    },
  );

  test.each(operationRoutes.filter(([method, , , access]) => access === 'anyone' && (method as string) !== 'GET'))(
    '%s %s from a page of another site',
    async (method, path) => {
      const { status, body } = await request(
        app.url + pathOf(path),
        method,
        {},
        { origin: 'https://elsewhere.example' },
      );
      expect([status, body.code]).toEqual([403, 'csrf_refused']);
    },
  );
});

test('whoever is nobody on a route for users and agents is told what either may present', async () => {
  const { status, body } = await request(`${app.url}/api/v1/webhooks`, 'GET', undefined, {});
  expect([status, body.code, body.detail]).toEqual([
    401,
    'agent_unauthenticated',
    expect.stringMatching(/^Sign in, .* API token, an agent credential or an agent session/),
  ]);
});

test('a session and a token of the same user are told apart', async () => {
  const operator = await addPerson(app, 'operator');
  expect((await operator.api('GET', '/api/v1/account')).body).toMatchObject({ role: 'operator', csrf_token: null });
  expect((await operator.browse('GET', '/api/v1/account')).body.csrf_token).toMatch(/^[\w-]{43}$/);
});
