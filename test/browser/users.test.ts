import { randomUUID } from 'node:crypto';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pageRoutes } from '../../server/manage/api/routes.ts';
import type { TestApp } from '../helpers/app.ts';
import { accessibilityViolations, closeTabs, openTab, startBrowser, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD, signIn, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let browser: Browser;
let administrator: TestPerson;
beforeAll(async () => {
  [app, browser] = await Promise.all([startPagesApp(), startBrowser()]);
  administrator = await addPerson(app, 'administrator', PASSWORD);
});
afterAll(async () => {
  await closeTabs(browser);
  await app?.stop();
});

/** Presses a button whose form asks for the administrator's password. */
async function press(page: Page, name: string, password = PASSWORD): Promise<void> {
  const button = page.getByRole('button', { name });
  await page.locator('form', { has: button }).getByLabel('Your password').fill(password);
  await button.click();
}

/** Pages on which every user can change their own data. */
const ownPages = ['/account', '/tokens', '/tokens/new', '/sign-in', '/setup'];
const viewerPages = pageRoutes
  .filter(([method, path, , access]) => method === 'GET' && access === 'viewer' && !path.includes(':'))
  .map(([, path]) => path)
  .filter((path) => !ownPages.includes(path));

describe('with JavaScript', () => {
  test('a new user chooses a password with the link that was shown once, and can only read', async () => {
    const email = `colleague-${randomUUID()}@example.org`;
    const { page, close } = await openTab(browser, app, administrator);
    await page.goto('/users');
    await page.getByRole('link', { name: 'New user' }).click();
    await page.getByLabel('Email').fill('no address');
    await page.locator('form.card').evaluate((form) => form.setAttribute('novalidate', ''));
    await page.getByRole('button', { name: 'Create user' }).click();
    await page.locator('#e-email').waitFor();
    await page.getByLabel('Email').fill(email);
    await page.getByLabel('Name').fill('A colleague');
    await press(page, 'Create user');
    const link = (await page.locator('.once code').textContent())!;
    await page.getByRole('link', { name: 'I have stored it' }).click();
    await page.getByRole('heading', { name: email }).waitFor();
    await page.getByText('The invitation link is valid until').waitFor();
    expect(await page.content()).not.toContain(new URL(link).searchParams.get('token'));
    await close();

    const theirs = await openTab(browser, app, null);
    await theirs.page.goto(link);
    expect(await accessibilityViolations(theirs.page)).toEqual([]);
    expect(await theirs.page.getByLabel('Email').inputValue()).toBe(email);
    await theirs.page.getByLabel('Password').fill(email);
    await theirs.page.getByRole('button', { name: 'Set password and sign in' }).click();
    await theirs.page.locator('#e-password').waitFor();
    await theirs.page.getByLabel('Password').fill('a passphrase that they chose');
    await theirs.page.getByRole('button', { name: 'Set password and sign in' }).click();
    await theirs.page.getByRole('heading', { name: 'Overview' }).waitFor();
    const nav = await theirs.page.locator('.nav a').allTextContents();
    expect(nav).toContain('Webhooks');
    expect(nav).not.toContain('Users');
    expect(nav).not.toContain('Audit');
    for (const path of viewerPages) {
      await theirs.page.goto(path);
      expect(await theirs.page.locator('main form[method=post], main a[href$="/new"]').count(), path).toBe(0);
    }
    expect((await theirs.page.goto('/users'))?.status()).toBe(403);
    await theirs.close();
  });

  test('an administrator changes name and role, disables, enables, sets a password and deletes', async () => {
    const viewer = await addPerson(app, 'viewer');
    const { page, close } = await openTab(browser, app, administrator);
    await page.goto(`/users/${viewer.id}`);
    await page.getByLabel('Name').fill('Grace');
    await page.getByLabel('Role').selectOption('operator');
    await press(page, 'Save', 'not the password');
    expect(await page.locator('#e-current_password-role').textContent()).toBe('This is not your password.');
    expect(await page.locator('[id^=e-current_password]').count()).toBe(1);
    expect([await page.getByLabel('Name').inputValue(), await page.getByLabel('Role').inputValue()]).toEqual([
      'Grace',
      'operator',
    ]);
    await press(page, 'Save');
    await page.getByText('Saved.').waitFor();
    expect((await viewer.browse('GET', '/api/v1/account')).body).toMatchObject({ name: 'Grace', role: 'operator' });

    await page.getByText('Disable user…').click();
    await press(page, 'Disable user now');
    await page.getByText('The user is disabled.').waitFor();
    expect((await viewer.api('GET', '/api/v1/account')).status).toBe(401);
    await press(page, 'Enable user');
    await page.getByText('The user is enabled.').waitFor();
    expect((await viewer.api('GET', '/api/v1/account')).status).toBe(200);

    await page.getByLabel('New password').fill('short');
    await press(page, 'Set new password');
    await page.locator('#e-password').waitFor();
    await press(page, 'Set new password');
    const password = (await page.locator('.once code').textContent())!;
    await page.getByText('1 API token revoked.').waitFor();
    expect((await viewer.api('GET', '/api/v1/account')).status).toBe(401);
    expect((await signIn(app, viewer.email, password)).status).toBe(200);

    await page.getByRole('link', { name: 'I have stored it' }).click();
    await page.locator('.once').waitFor({ state: 'detached' });
    const confirm = page.getByLabel(`Type ${viewer.email} to confirm`);
    await confirm.fill('somebody else');
    await press(page, 'Delete user');
    await page.locator('#e-confirm').waitFor();
    await confirm.fill(viewer.email);
    await press(page, 'Delete user', 'not the password');
    await page.locator('#e-current_password-delete').waitFor();
    expect(await confirm.inputValue()).toBe(viewer.email);
    await press(page, 'Delete user');
    await page.getByText('Deleted.').waitFor();
    expect((await page.goto(`/users/${viewer.id}`))?.status()).toBe(404);
    await close();
  });

  test('the last administrator cannot be removed, and the error is shown at the form that was used', async () => {
    const { page, close } = await openTab(browser, app, administrator);
    await page.goto(`/users/${administrator.id}`);
    await page.getByLabel('Role').selectOption('viewer');
    await press(page, 'Save');
    expect(await page.locator('#e-role').textContent()).toMatch(/^This is the last active administrator/);
    expect(await page.getByLabel('Role').inputValue()).toBe('viewer');
    await page.getByText('Disable user…').click();
    await press(page, 'Disable user now');
    await page.locator('section', { hasText: 'Disable' }).getByText('This is the last active administrator').waitFor();
    await page.getByLabel(`Type ${administrator.email} to confirm`).fill(administrator.email);
    await press(page, 'Delete user');
    expect(await page.locator('#e-confirm').textContent()).toMatch(/^This is the last active administrator/);
    await close();
  });
});

test.each([
  ['light', 1280, false],
  ['dark and narrow', 360, true],
] as const)('a user page is accessible and fits, %s', async (_, width, dark) => {
  const { page, complaints, close } = await openTab(browser, app, administrator, { width, dark });
  await page.goto(`/users/${(await addPerson(app, 'viewer')).id}`);
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  expect(complaints).toEqual([]);
  await close();
});

const hostile = [
  '<script>globalThis.pwned=1</script>',
  '"><img src=x onerror=globalThis.pwned=1>',
  "' autofocus onfocus=globalThis.pwned=1 x='",
  '</title><svg onload=globalThis.pwned=1>',
  '<a href="javascript:globalThis.pwned=1">x</a>',
  '<%= globalThis.pwned=1 %>',
  '&lt;b&gt; \u202e gnp.exe',
];

test('names and emails are shown as text, for any content', async () => {
  const people = await Promise.all(hostile.map(() => addPerson(app, 'operator')));
  const emails = hostile.map((text) => `${text}@${randomUUID()}`);
  for (const [index, text] of hostile.entries()) {
    const values = [people[index]!.id, text, emails[index]!];
    await app.database.query({ text: 'update users set name = $2, email = $3 where id = $1', values });
    await people[index]!.api('POST', '/api/v1/tokens', { name: text });
  }
  const { page, complaints, close } = await openTab(browser, app, administrator);
  for (const path of ['/users', '/tokens?all=true', '/audit?action=token.']) {
    await page.goto(path);
    for (const email of emails) await page.getByRole('link', { name: email, exact: true }).first().waitFor();
  }
  for (const [index, { id }] of people.entries()) {
    await page.goto(`/users/${id}`);
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toContain(emails[index]);
    expect(await page.getByLabel('Name').inputValue()).toBe(hostile[index]);
  }
  const theirs = await openTab(browser, app, people[0]!);
  await theirs.page.goto('/account');
  await theirs.page.getByRole('link', { name: emails[0]! }).waitFor();
  for (const tab of [page, theirs.page]) expect(await tab.evaluate('globalThis.pwned')).toBeUndefined();
  expect([...complaints, ...theirs.complaints]).toEqual([]);
  await Promise.all([close(), theirs.close()]);
});
