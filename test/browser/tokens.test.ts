import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD, request } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);

const withToken = (token: string) =>
  request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });

test('a wrong password is shown beside its field, and the rest is kept', async () => {
  const operator = await addPerson(app, 'operator', PASSWORD);
  const { page, close } = await openTab(app, operator);
  await page.goto('/tokens/new');
  await page.getByLabel('Name', { exact: true }).fill('for ever');
  await page.getByLabel('Expires after').selectOption('never');
  await page.getByLabel('Your password').fill('not the password');
  await page.getByRole('button', { name: 'Create token' }).click();
  expect(await page.locator('#e-current_password').textContent()).toBe('This is not your password.');
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('for ever');
  expect(await page.getByLabel('Expires after').inputValue()).toBe('never');
  await page.getByLabel('Your password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create token' }).click();
  const token = (await page.locator('.once code').textContent())!;
  expect((await withToken(token)).body).toMatchObject({ id: operator.id });
  await close();
});

test('an administrator sees the tokens of all users, other roles only their own', async () => {
  const [administrator, viewer] = [await addPerson(app, 'administrator'), await addPerson(app, 'viewer')];
  const name = '<img src=x onerror=alert(1)>"\'`</td>';
  const { body: made } = await viewer.api('POST', '/api/v1/tokens', { name });

  const tab = await openTab(app, administrator);
  await tab.page.goto('/tokens');
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
  expect((await other.browse('GET', '/tokens?all=true')).status).toBe(403);
  expect((await other.browse('GET', `/tokens/${made.id}`)).status).toBe(404);
});

test('a token is not cached', async () => {
  const viewer = await addPerson(app, 'viewer', PASSWORD);
  const form = { 'content-type': 'application/x-www-form-urlencoded', origin: app.settings.PUBLIC_URL };
  const csrf = (await request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie: viewer.cookie })).body
    .csrf_token;
  const fields = { csrf, name: 'x', role: 'viewer', expires: '7', current_password: PASSWORD };
  const body = new URLSearchParams(fields).toString();
  const made = await request(`${app.url}/tokens/new`, 'POST', body, { ...form, cookie: viewer.cookie });
  expect(made.status).toBe(201);
  expect(made.text).toContain('wu_');
  expect(made.headers.get('cache-control')).toBe('no-store');
});
