import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

// The same journeys without scripts, with all their steps: test/pages/without-scripts/webhooks.test.ts.
test('senders are searched while the name is typed, and the page of the new webhook is accessible', async () => {
  const { page, complaints } = await ofTest(openTab(app, operator));
  await page.goto('/webhooks/new');
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.getByLabel(/^Search \d+ senders/).fill('GitHub');
  await page.locator('#senders a.tile').nth(1).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'GitHub', exact: true }).click();
  await page.getByLabel('Provided by the sender').check();
  await page.getByLabel('The sender’s secret').fill('mistyped');
  await page.getByRole('button', { name: 'Create webhook' }).click();
  await page.locator('#flow').getByText('No request yet').waitFor();
  await page.getByRole('heading', { name: 'Set up GitHub' }).waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.getByRole('link', { name: 'Secret', exact: true }).click();
  await page.getByText('0 requests verified').waitFor();
  // The first command is open also on a page that htmx puts in the place of one with commands.
  expect(await page.locator('.sample').first().isVisible()).toBe(true);
  expect(complaints).toEqual([]);
});

test('a notice is shown once, and the focus moves to the field that is wrong', async () => {
  const made = await app.addWebhook({ name: 'to be deleted' });
  const { page, complaints } = await ofTest(openTab(app, operator));
  await page.goto(`/webhooks/${made.id}/settings`);
  await page.getByText('Disable…').click();
  await page.getByRole('button', { name: 'Disable now' }).click();
  await page.getByText('The webhook is disabled. Requests get a 410 response.').waitFor();
  await page.reload();
  expect(await page.locator('.notice').count()).toBe(0);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByLabel('Type its name').fill('another');
  await page.getByRole('button', { name: 'Delete webhook' }).click();
  await page.getByText('Type to be deleted to confirm.').waitFor();
  await until(async () => (await page.evaluate('document.activeElement.name')) === 'confirmed');
  await page.getByLabel('Type its name').fill('to be deleted');
  await page.getByRole('button', { name: 'Delete webhook' }).click();
  await page.getByText('Deleted.').waitFor();
  expect(complaints.filter((complaint) => !/status of 422/.test(complaint))).toEqual([]);
});

const sql = (text: string) => app.sql(text);

test('the set-up form is accessible, and refuses any token but the printed one', async () => {
  await sql('delete from users');
  const { page, complaints } = await ofTest(openTab(app, null, { width: 360 }));
  await page.goto('/setup?token=guessed');
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await page.getByLabel('Email').fill('eve@example.org');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.getByText('This is not the setup URL of this database').waitFor();
});

test('before the set-up both pages explain where its address is', async () => {
  await sql('delete from users');
  const { page } = await ofTest(openTab(app, null));
  await page.goto('/sign-in');
  await page.getByText('Open the setup URL that Weir printed at startup').waitFor();
  expect(await page.getByLabel('Email').count()).toBe(0);
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.goto('/setup');
  await page.getByText('This URL has no token.').waitFor();
  expect(await page.getByLabel('Email').count()).toBe(0);
});
