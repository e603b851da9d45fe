import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, givePassword, PASSWORD, request, signIn } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);

const sql = (text: string) => app.database.query({ text, values: [] });

test('the set-up form is accessible, and refuses any token but the printed one', async () => {
  await sql('delete from users');
  const { page, complaints, close } = await openTab(app, null, { width: 360 });
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
  const { page, close } = await openTab(app, null);
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
