import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { PASSWORD } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);

const sql = (text: string) => app.sql(text);

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
