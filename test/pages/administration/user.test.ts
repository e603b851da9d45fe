import { beforeAll, describe, expect, test } from 'vitest';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, PASSWORD, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startPagesApp);
let administrator: TestPerson;
let viewer: TestPerson;
beforeAll(async () => {
  [administrator, viewer] = await Promise.all([
    addPerson(app, 'administrator', PASSWORD),
    addPerson(app, 'viewer'),
    // Without a second administrator, the first one cannot lower its role.
    addPerson(app, 'administrator'),
  ]);
});

/** Saves the form of a user as the administrator; returns status and Location. */
async function save(userId: string, role: string): Promise<[number, string | null]> {
  const fields = { name: 'New name', role, current_password: PASSWORD };
  const { status, location } = await administrator.submit(`/users/${userId}`, fields);
  return [status, location];
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
