import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestApp } from '../helpers/app.ts';
import { accessibilityViolations, openTab, startPagesApp, type Tab } from '../helpers/browser.ts';
import { TestProvider } from '../helpers/oidc-provider.ts';
import { addPerson } from '../helpers/people.ts';
import { freePort } from '../helpers/ports.ts';
import { ofTest } from '../helpers/shared.ts';

let provider: TestProvider;
let app: TestApp;
beforeAll(async () => {
  const port = await freePort();
  provider = await TestProvider.start({
    redirectUris: [`http://127.0.0.1:${port}/oidc/callback`],
    people: {
      olga: { email: 'olga@example.org', email_verified: true, name: 'Olga', weir_role: 'operator' },
      ada: { email: 'ada@example.org', email_verified: true, weir_role: 'administrator' },
      nobody: { email: 'nobody@example.org', email_verified: true },
    },
  });
  app = await startPagesApp({
    PORT: port,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    AUTH_MODE: 'hosted',
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: provider.clientId,
    OIDC_CLIENT_SECRET: provider.clientSecret,
  });
});
afterAll(async () => {
  await app.stop();
  await provider?.stop();
});

async function logIn({ page }: Tab, login: string): Promise<void> {
  await page.getByRole('link', { name: 'Sign in with your organisation' }).click();
  await page.waitForURL(`${provider.issuer}/**`);
  await page.locator('input[name=login]').fill(login);
  await page.keyboard.press('Enter');
}

describe.each([
  ['with JavaScript', true],
  ['without JavaScript', false],
])('%s', (_, javaScriptEnabled) => {
  test('a user signs in at the provider, returns to the requested page, and signs out', async () => {
    const tab = await openTab(app, null, { javaScriptEnabled });
    const { page, close } = tab;
    await page.goto('/events?q=x');
    expect(await page.locator('input[type=password]').count()).toBe(0);
    await logIn(tab, 'olga');
    await page.waitForURL('**/events?q=x');
    await page.goto('/account');
    await page.getByText('operator').first().waitFor();
    expect(await page.getByRole('heading', { name: 'Password' }).count()).toBe(0);

    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByText('You are signed out.').waitFor();
    const there = await page.getByRole('link', { name: 'Sign out there' }).getAttribute('href');
    expect(there).toMatch(new RegExp(`^${provider.issuer}/`));
    await close();
  });

  test('a link in the second half of a session leads through the provider to its page without interaction', async () => {
    const tab = await ofTest(openTab(app, null, { javaScriptEnabled }));
    await tab.page.goto('/sign-in');
    await logIn(tab, 'olga');
    await tab.page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    const ends = `select max(expires_at) > now() + interval '55 minutes' as late from sessions`;
    await app.sql(`update sessions set expires_at = now() + interval '20 minutes'`);
    await tab.page.getByRole('link', { name: 'Deliveries', exact: true }).first().click();
    await tab.page.getByRole('heading', { name: 'Deliveries', level: 1 }).waitFor();
    expect(new URL(tab.page.url()).pathname).toBe('/deliveries');
    expect(await app.sql(ends)).toEqual([{ late: true }]);
    expect(tab.complaints).toEqual([]);
  });

  test('a change of a user long after the sign-in leads to the provider and back, and keeps the input', async () => {
    const tab = await ofTest(openTab(app, null, { javaScriptEnabled }));
    const { page } = tab;
    await page.goto('/sign-in');
    await logIn(tab, 'ada');
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    const pass = () => app.sql(`update sessions set authenticated_at = now() - interval '6 minutes'`);
    await pass();
    await page.goto('/users/new');
    await page.getByRole('link', { name: 'Sign in again' }).click();
    await page.getByRole('link', { name: 'Sign in again' }).waitFor({ state: 'detached' });
    await page.waitForURL('**/users/new');

    const email = `hosted-${javaScriptEnabled}@example.org`;
    await page.getByLabel('Email').fill(email);
    await pass();
    await page.getByRole('button', { name: 'Create user' }).click();
    const link = page.getByRole('link', { name: 'Sign in again' });
    await link.waitFor();
    expect(await page.getByLabel('Email').inputValue()).toBe(email);
    const [there] = await Promise.all([tab.context.waitForEvent('page'), link.click()]);
    await there.waitForURL('**/users/new');
    await there.close();
    await page.getByRole('button', { name: 'Create user' }).click();
    await page.getByText('User created.').waitFor();
  });

  test('a user without a role gets the reason, and can try again', async () => {
    const tab = await ofTest(openTab(app, null, { javaScriptEnabled }));
    await tab.page.goto('/sign-in');
    await logIn(tab, 'nobody');
    await tab.page.getByText('The identity provider gives you no role in Weir').waitFor();
    await tab.page.getByRole('link', { name: 'Sign in' }).click();
    await tab.page.waitForURL('**/sign-in');
  });
});

test('there is no set-up page, and there are no passwords', async () => {
  const administrator = await addPerson(app, 'administrator');
  const { page, complaints } = await ofTest(openTab(app, administrator, { width: 360 }));
  for (const path of [
    '/account',
    '/users/new',
    `/users/${administrator.id}`,
    `/users/${(await addPerson(app, 'viewer')).id}`,
  ]) {
    await page.goto(path);
    expect(await page.locator('input[type=password]').count(), path).toBe(0);
    expect(await accessibilityViolations(page)).toEqual([]);
  }
  expect(complaints).toEqual([]);
  await page.goto('/users/new');
  await page.getByLabel('Email').fill('new@example.org');
  await page.getByRole('button', { name: 'Create user' }).click();
  await page.getByText('User created.').waitFor();
  await page.getByText('at the identity provider (never signed in)').waitFor();
  expect((await page.goto('/setup?token=x'))?.status()).toBe(404);
});
