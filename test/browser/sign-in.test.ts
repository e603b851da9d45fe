import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setupAddress } from '../../server/manage/auth/setup.ts';
import { derivedKeys, loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import type { TestApp } from '../helpers/app.ts';
import { accessibilityViolations, closeTabs, openTab, startBrowser, startPagesApp } from '../helpers/browser.ts';
import { addPerson, cookieOf, givePassword, PASSWORD, request, signIn } from '../helpers/people.ts';

let app: TestApp;
let browser: Browser;
beforeAll(async () => {
  [app, browser] = await Promise.all([startPagesApp(), startBrowser()]);
});
afterAll(async () => {
  await closeTabs(browser);
  await app?.stop();
});

const NEW_PASSWORD = 'another long enough one';
const sql = (text: string) => app.database.query({ text, values: [] });
const setupKey = () => derivedKeys(loadSecretsKeys(app.settings), 'setup')[0]!;

describe('with JavaScript', () => {
  test('the first administrator is created at the setup URL that the start printed', async () => {
    await sql('delete from users');
    const address = await setupAddress(app.database, setupKey(), app.settings.PUBLIC_URL);
    const { page, close } = await openTab(browser, app, null);
    await page.goto(address!);
    await page.getByLabel('Email').fill('Ada@Example.org');
    await page.getByLabel('Name').fill('Ada');
    await page.getByLabel('Password').fill('ada@example.org');
    await page.getByRole('button', { name: 'Set up' }).click();
    expect(await page.locator('#e-password').textContent()).toBe(
      'The password must not be the email address or a part of it.',
    );
    expect(await page.getByLabel('Name').inputValue()).toBe('Ada');
    expect(await page.getByLabel('Password').inputValue()).toBe('');

    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Set up' }).click();
    await page.getByText('You are the administrator.').waitFor();
    await page.getByRole('link', { name: 'ada@example.org' }).waitFor();
    expect((await page.goto(address!))?.status()).toBe(404);
    await page.getByText('An administrator already exists').waitFor();
    await close();
  });

  test('a user signs in wrongly, then correctly, reaches the requested page, and signs out', async () => {
    const viewer = await addPerson(app, 'viewer');
    await givePassword(app, viewer);
    const { page, context, close } = await openTab(browser, app, null);
    await page.goto('/deliveries?state=dead');
    await page.waitForURL('**/sign-in?return_to=%2Fdeliveries%3Fstate%3Ddead');
    await page.getByLabel('Email').fill(viewer.email);
    await page.getByLabel('Password').fill('not my password');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('The email or the password is wrong').waitFor();
    expect(await page.getByLabel('Email').inputValue()).toBe(viewer.email);
    expect(await page.getByLabel('Password').inputValue()).toBe('');
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL('**/deliveries?state=dead');

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are signed out.').waitFor();
    // The browser stays known; the session is gone.
    expect((await context.cookies()).map(({ name }) => name)).toEqual(['weir_device']);
    await page.goto('/');
    await page.waitForURL('**/sign-in');
    await close();
  });

  test('a user changes the password; other browsers are signed out, this one is not', async () => {
    const viewer = await addPerson(app, 'viewer');
    await givePassword(app, viewer);
    const [here, elsewhere] = [await openTab(browser, app, null), await openTab(browser, app, null)];
    for (const { page } of [here, elsewhere]) {
      await page.goto('/sign-in?return_to=/account');
      await page.getByLabel('Email').fill(viewer.email);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'Account' }).waitFor();
    }
    const { page } = here;
    await page.reload();
    expect(await page.locator('tbody tr').count()).toBe(2);
    expect(await page.locator('tr', { hasText: 'this browser' }).count()).toBe(1);

    const change = async (present: string, next: string, again: string) => {
      await page.getByLabel('Current password').fill(present);
      await page.getByLabel('New password', { exact: true }).fill(next);
      await page.getByLabel('Confirm new password').fill(again);
      await page.getByRole('button', { name: 'Change password' }).click();
    };
    await change(PASSWORD, NEW_PASSWORD, 'a third one, by mistake');
    await page.locator('#e-new_password_again').waitFor();
    await change('not my password', NEW_PASSWORD, NEW_PASSWORD);
    await page.locator('#e-current_password').waitFor();
    await change(PASSWORD, 'short', 'short');
    await page.locator('#e-new_password').waitFor();
    await change(PASSWORD, NEW_PASSWORD, NEW_PASSWORD);
    await page.getByText('Your password is changed').waitFor();
    expect(await page.locator('tbody tr').count()).toBe(1);
    await elsewhere.page.goto('/account');
    await elsewhere.page.waitForURL('**/sign-in**');
    expect((await signIn(app, viewer.email, PASSWORD)).status).toBe(401);
    expect((await signIn(app, viewer.email, NEW_PASSWORD)).status).toBe(200);
    await Promise.all([here.close(), elsewhere.close()]);
  });

  test('a user ends the session of another browser, then the own one', async () => {
    const viewer = await addPerson(app, 'viewer');
    await givePassword(app, viewer);
    const elsewhere = cookieOf(await signIn(app, viewer.email, PASSWORD, { 'user-agent': 'curl/8.5.0' }));
    const here = { ...viewer, cookie: cookieOf(await signIn(app, viewer.email)) };
    const { page, context, close } = await openTab(browser, app, here);
    await page.goto('/account');
    const row = page.getByRole('row', { name: 'curl' });
    const signedIn = await row.locator('[data-label="Signed in"]').innerText();
    await row.getByRole('button', { name: `Sign out curl, signed in ${signedIn}`, exact: true }).click();
    await page.getByText('That browser is signed out.').waitFor();
    expect(await page.locator('tbody tr').count()).toBe(1);
    const asked = await request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie: elsewhere });
    expect(asked.status).toBe(401);
    await page.locator('tr', { hasText: 'this browser' }).getByRole('button').click();
    await page.getByText('You are signed out.').waitFor();
    expect(await context.cookies()).toEqual([]);
    await close();
  });

  test('a user signs out everywhere', async () => {
    const viewer = await addPerson(app, 'viewer');
    const [here, elsewhere] = [await openTab(browser, app, viewer), await openTab(browser, app, viewer)];
    await here.page.goto('/account');
    await here.page.getByRole('button', { name: 'Sign out everywhere' }).click();
    await here.page.getByText('You are signed out everywhere.').waitFor();
    expect(await here.page.locator('.nav').count()).toBe(0);
    await elsewhere.page.goto('/');
    await elsewhere.page.waitForURL('**/sign-in');
    await Promise.all([here.close(), elsewhere.close()]);
  });
});

test('the set-up form is accessible, and refuses any token but the printed one', async () => {
  await sql('delete from users');
  const { page, complaints, close } = await openTab(browser, app, null, { width: 360 });
  await page.goto('/setup?token=guessed');
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await page.getByLabel('Email').fill('eve@example.org');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.getByText('This is not the setup URL of this database').waitFor();
  await close();
});

test('before the set-up both pages explain where its address is', async () => {
  await sql('delete from users');
  const { page, close } = await openTab(browser, app, null);
  await page.goto('/sign-in');
  await page.getByText('Open the setup URL that Weir printed at startup').waitFor();
  expect(await page.getByLabel('Email').count()).toBe(0);
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.goto('/setup');
  await page.getByText('This URL has no token.').waitFor();
  expect(await page.getByLabel('Email').count()).toBe(0);
  await close();
});

test('after failed sign-ins the page shows how long to wait', async () => {
  const viewer = await addPerson(app, 'viewer');
  await givePassword(app, viewer);
  for (let each = 0; each < 30; each++) {
    const answer = await signIn(app, viewer.email, `guess ${each}`);
    if (answer.status === 429) break;
  }
  const form = new URLSearchParams({ email: viewer.email, password: PASSWORD, return_to: '/' }).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: app.settings.PUBLIC_URL };
  const { status, headers: answered, text } = await request(`${app.url}/sign-in`, 'POST', form, headers);
  expect(status).toBe(429);
  const seconds = Number(answered.get('retry-after'));
  expect(seconds).toBeGreaterThan(0);
  expect(text).toContain(`Try again in ${seconds} second`);
  await sql('delete from sign_in_failures');
});

test.each([
  'https://evil.example/',
  '//evil.example/',
  '/\\evil.example/',
  '\\/evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  'javascript:alert(1)',
  'evil.example',
  '',
])('return_to %j leads to the overview', async (returnTo) => {
  const viewer = await addPerson(app, 'viewer');
  const { headers } = await viewer.browse('GET', `/sign-in?return_to=${encodeURIComponent(returnTo)}`);
  expect(new URL(headers.get('location')!, app.settings.PUBLIC_URL).href).toBe(`${app.settings.PUBLIC_URL}/`);
});

test('a form of another site cannot sign in', async () => {
  const viewer = await addPerson(app, 'viewer');
  await givePassword(app, viewer);
  const form = new URLSearchParams({ email: viewer.email, password: PASSWORD }).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: 'https://evil.example' };
  const answer = await request(`${app.url}/sign-in`, 'POST', form, headers);
  expect(answer.status).toBe(403);
  expect(answer.headers.get('set-cookie')).toBeNull();
});
