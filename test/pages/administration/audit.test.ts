import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestApp } from '../../helpers/app.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, PASSWORD, signIn, type TestPerson } from '../../helpers/people.ts';

let app: TestApp;
let administrator: TestPerson;
let webhook: string;
beforeAll(async () => {
  app = await startPagesApp();
  administrator = await addPerson(app, 'administrator', PASSWORD);
  const { api, email } = administrator;
  webhook = (await api('POST', '/api/v1/webhooks', { name: 'Orders', generate_secret: true })).body.id;
  await api('PATCH', `/api/v1/webhooks/${webhook}`, { enabled: false });
  await api('POST', `/api/v1/webhooks/${webhook}/rotate-secret`, { overlap_seconds: 0 });
  await signIn(app, email, PASSWORD);
});
afterAll(() => app?.stop());

const get = async (path: string) => (await administrator.browse('GET', path)).text;

/** The column What was done, as text. */
async function done(path: string): Promise<string[]> {
  const rows = [...(await get(path)).matchAll(/<td class="wrap" title="[\w.]+">([\s\S]*?)<\/td>/g)];
  return rows.map(([, cell]) =>
    cell!
      .replace(/<[^>]+>/g, '')
      .replace(/\s+/g, ' ')
      .trim(),
  );
}

test('a row says in words who did what, and sign-ins are apart', async () => {
  const who = `token ${administrator.email}`;
  expect(await done('/audit')).toEqual([
    `${who} rotated the secret of webhook Orders`,
    `${who} changed webhook Orders`,
    `${who} created webhook Orders`,
  ]);
  expect(await done('/audit?action=session.')).toEqual([`${administrator.email} signed in`]);
  expect(await done('/audit?action=user.')).toEqual([]);
});

test('the API leaves out what begins with the text after an exclamation mark', async () => {
  const { body } = await administrator.api('GET', '/api/v1/audit?action=!webhook.');
  expect(body.items.map(({ action }: { action: string }) => action)).toEqual(['session.sign_in']);
  expect((await administrator.api('GET', '/api/v1/audit?action=!')).status).toBe(422);
});

test('an entry has no rows without a value, and times as on other pages', async () => {
  const page = await get('/audit/1');
  expect(page).not.toMatch(/<td class="wrap" data-label="After">(<ins>)?–/);
  expect(page).toMatch(/<ins>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC<\/ins>/);
});
