import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestApp } from '../../helpers/app.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, csrfToken, PASSWORD, type TestPerson } from '../../helpers/people.ts';

let app: TestApp;
let administrator: TestPerson;
let viewer: TestPerson;
beforeAll(async () => {
  app = await startPagesApp();
  [administrator, viewer] = await Promise.all([
    addPerson(app, 'administrator', PASSWORD),
    addPerson(app, 'viewer'),
    // Without a second administrator, the first one cannot lower its role.
    addPerson(app, 'administrator'),
  ]);
});
afterAll(() => app?.stop());

/** Saves the form of a user as the administrator; returns status and Location. */
async function save(userId: string, role: string): Promise<[number, string | null]> {
  const { cookie } = administrator;
  const csrf = await csrfToken(app.url, cookie);
  const { status, headers } = await fetch(`${app.url}/users/${userId}`, {
    method: 'POST',
    body: new URLSearchParams({ csrf, name: 'New name', role, current_password: PASSWORD }),
    headers: { cookie, origin: app.url },
    redirect: 'manual',
  });
  return [status, headers.get('location')];
}

const savedAt = (path: string) => expect.stringContaining(`${path}?notice=saved&proof=`);

describe('after saving a user the browser is redirected', () => {
  test('to the page of another user', async () => {
    expect(await save(viewer.id, 'operator')).toEqual([303, savedAt(`/users/${viewer.id}`)]);
  });

  test('to the own page while the role allows it', async () => {
    expect(await save(administrator.id, 'administrator')).toEqual([303, savedAt(`/users/${administrator.id}`)]);
  });

  test('to the account after lowering the own role', async () => {
    expect(await save(administrator.id, 'operator')).toEqual([303, savedAt('/account')]);
  });
});
