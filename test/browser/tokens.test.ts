import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD, request } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);

test('an administrator sees the tokens of all users, other roles only their own', async () => {
  const [administrator, viewer] = [await addPerson(app, 'administrator'), await addPerson(app, 'viewer')];
  const name = '<img src=x onerror=alert(1)>"\'`</td>';
  const { body: made } = await viewer.api('POST', '/api/v1/tokens', { name });

  const tab = await openTab(app, administrator);
  await tab.page.goto('/account/tokens');
  expect(await tab.page.getByText(name).count()).toBe(0);
  await tab.page.getByRole('link', { name: 'All users' }).click();
  await tab.page.getByRole('link', { name: viewer.email }).first().click();
  await tab.page.getByRole('link', { name: 'One user' }).waitFor();
  expect(await tab.page.locator('tbody tr').count()).toBe(2);
  await tab.page.getByRole('link', { name }).click();
  await tab.page.getByRole('heading', { level: 1, name }).waitFor();
  expect(await accessibilityViolations(tab.page)).toEqual([]);
  expect(tab.complaints).toEqual([]);
  await tab.close();

  const other = await addPerson(app, 'operator');
  expect((await other.browse('GET', '/account/tokens?all=true')).status).toBe(403);
  expect((await other.browse('GET', `/account/tokens/${made.id}`)).status).toBe(404);
});

test('a token is not cached', async () => {
  const viewer = await addPerson(app, 'viewer', PASSWORD);
  const form = { 'content-type': 'application/x-www-form-urlencoded', origin: app.settings.PUBLIC_URL };
  const csrf = (await request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie: viewer.cookie })).body
    .csrf_token;
  const fields = { csrf, name: 'x', role: 'viewer', expires: '7', current_password: PASSWORD };
  const body = new URLSearchParams(fields).toString();
  const made = await request(`${app.url}/account/tokens/new`, 'POST', body, { ...form, cookie: viewer.cookie });
  expect(made.status).toBe(201);
  expect(made.text).toContain('wu_');
  expect(made.headers.get('cache-control')).toBe('no-store');
});
