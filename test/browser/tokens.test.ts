import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestApp } from '../helpers/app.ts';
import { accessibilityViolations, closeTabs, openTab, startBrowser, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD, request } from '../helpers/people.ts';

let app: TestApp;
let browser: Browser;
beforeAll(async () => {
  [app, browser] = await Promise.all([startPagesApp(), startBrowser()]);
});
afterAll(async () => {
  await closeTabs(browser);
  await app?.stop();
});

const withToken = (token: string) =>
  request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });

describe('with JavaScript', () => {
  test('a user creates a token, sees it once, uses it and revokes it', async () => {
    const operator = await addPerson(app, 'operator', PASSWORD);
    const { page, complaints, close } = await openTab(browser, app, operator);
    await page.goto('/tokens');
    await page.getByRole('link', { name: 'New token' }).click();
    await page.getByLabel('Name', { exact: true }).fill('nightly report');
    await page.getByLabel('Role').selectOption('viewer');
    await page.getByLabel('Expires after').selectOption('30 days');
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create token' }).click();

    const token = (await page.locator('.once code').textContent())!;
    expect((await withToken(token)).body).toMatchObject({ id: operator.id, role: 'viewer' });
    const [stored] = (await operator.api('GET', '/api/v1/tokens')).body.items;
    expect(Date.parse(stored.expires_at) - Date.parse(stored.created_at)).toBeCloseTo(30 * 86_400_000, -4);

    await page.getByRole('link', { name: 'I have stored it' }).click();
    await page.waitForURL(`**/tokens/${stored.id}`);
    expect(await page.content()).not.toContain(token);
    await page.getByText('Revoke…').click();
    await page.getByRole('button', { name: 'Revoke now' }).click();
    await page.getByText('The token is revoked').waitFor();
    expect(await page.getByText('Revoke…').count()).toBe(0);
    expect((await withToken(token)).status).toBe(401);
    expect(complaints).toEqual([]);
    await close();
  });

  test('an error is shown beside its field, and the input is kept', async () => {
    const viewer = await addPerson(app, 'viewer', PASSWORD);
    const { page, close } = await openTab(browser, app, viewer);
    await page.goto('/tokens/new');
    expect(await page.getByLabel('Role').locator('option').allInnerTexts()).toEqual(['viewer']);
    await page.getByLabel('Name', { exact: true }).fill('   ');
    await page.getByLabel('Expires after').selectOption('a year');
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create token' }).click();
    const field = page.getByLabel('Name', { exact: true });
    await page.locator('#e-name').waitFor();
    expect(await field.getAttribute('aria-invalid')).toBe('true');
    expect(await page.locator('#e-name').textContent()).toBe('Give 1 to 200 characters.');
    expect(await page.getByLabel('Expires after').inputValue()).toBe('365');
    await close();
  });
});

test('a wrong password is shown beside its field, and the rest is kept', async () => {
  const operator = await addPerson(app, 'operator', PASSWORD);
  const { page, close } = await openTab(browser, app, operator);
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

  const tab = await openTab(browser, app, administrator);
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
