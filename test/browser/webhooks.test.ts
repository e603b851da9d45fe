import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

// The same journeys without scripts, with all their steps: test/pages/without-scripts/webhooks.test.ts.
test('senders are searched while the name is typed, and the page of the new webhook is accessible', async () => {
  const { page, complaints, close } = await openTab(app, operator);
  await page.goto('/webhooks/new');
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.getByLabel(/^Search \d+ senders/).fill('GitHub');
  await page.locator('#senders a.tile').nth(1).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'GitHub', exact: true }).click();
  await page.getByLabel('Provided by the sender').check();
  await page.getByLabel('The sender’s secret').fill('mistyped');
  await page.getByRole('button', { name: 'Create webhook' }).click();
  await page.locator('#waiting').getByText('Waiting for a request to the URL. Set up GitHub').waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await close();
});

test('a notice is shown once, and the focus moves to the field that is wrong', async () => {
  const made = await app.addWebhook({ name: 'to be deleted' });
  const { page, complaints, close } = await openTab(app, operator);
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
  await close();
});

test.each([1280, 360])('the pages of a webhook are accessible and fit into %i px', async (width) => {
  const made = await app.addWebhook({
    name: 'a webhook whose name is as long as anybody would ever want it to be '.repeat(2),
  });
  const tab = await openTab(app, operator, { width });
  const tabs = ['', '/rejections', '/settings', '/secret', '/edit'].map((tab) => `/webhooks/${made.id}${tab}`);
  for (const path of [...tabs, '/webhooks/new', '/webhooks']) {
    await tab.page.goto(path);
    expect(await accessibilityViolations(tab.page), path).toEqual([]);
    expect(await tab.page.evaluate('document.documentElement.scrollWidth'), path).toBeLessThanOrEqual(width);
  }
  expect(tab.complaints).toEqual([]);
  await tab.close();
});

test('another change is not overwritten silently, and the form says what changed', async () => {
  const made = await app.addWebhook({ name: 'of two people' });
  const tab = await openTab(app, operator, { javaScriptEnabled: false });
  const { page } = tab;
  await page.goto(`/webhooks/${made.id}/edit`);
  await operator.api('PATCH', `/api/v1/webhooks/${made.id}`, { name: 'by the other' });
  await page.getByLabel('Name', { exact: true }).fill('by me');
  await page.getByRole('button', { name: 'Save' }).click();
  expect(await page.locator('main').innerText()).toContain(
    'It was changed after you opened this form: name from “of two people” to “by the other”. Save again',
  );
  expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('by me');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: /by me/ }).waitFor();
  await tab.close();
});
