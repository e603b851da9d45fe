import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp, type Tab } from '../helpers/browser.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

/** Address and secret as the page of a webhook that was made just now shows them. */
async function readMade(page: Page): Promise<{ url: string; secret: string }> {
  const url = await page.locator('.address code').innerText();
  return { url, secret: await page.locator('.once code').innerText() };
}

describe('with JavaScript', () => {
  const withTab = async (person: TestPerson, journey: (tab: Tab) => Promise<void>) => {
    const tab = await openTab(app, person);
    await journey(tab);
    expect(tab.complaints.filter((complaint) => !/status of 4\d\d/.test(complaint))).toEqual([]);
    await tab.close();
  };

  test('a sender is found by name, and its first request is followed to the agent', async () => {
    await withTab(operator, async ({ page }) => {
      await page.goto('/webhooks/new');
      expect(await accessibilityViolations(page)).toEqual([]);
      await page.getByLabel(/^Search \d+ senders/).fill('GitHub');
      await page.locator('#senders a.tile').nth(1).waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'GitHub', exact: true }).click();
      expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('GitHub');
      await page.getByLabel('Provided by the sender').check();
      await page.getByLabel('The sender’s secret').fill('mistyped');
      await page.getByRole('button', { name: 'Create webhook' }).click();
      const waiting = page.locator('#waiting');
      await waiting.getByText('Waiting for a request to the URL. Set up GitHub').waitFor();
      const url = await page.locator('.address code').innerText();
      const id = new URL(url).pathname.slice('/in/'.length);
      const rejected = async () => (await operator.api('GET', `/api/v1/rejections?webhook_id=${id}`)).body.items;

      expect((await fetch(url, signedRequest({ secret: 'the right one' }))).status).toBe(403);
      await until(async () => (await rejected()).length === 1);
      // No primary publishes counters here, so that the panel is read again.
      await page.goto(`/webhooks/${id}`);
      await waiting.getByText('Signature refused').waitFor();
      expect(await accessibilityViolations(page)).toEqual([]);
      await waiting.getByLabel('The sender’s secret').fill('the right one');
      await waiting.getByRole('button', { name: 'Use this secret' }).click();
      await waiting.getByText('The request verifies with the current settings.').waitFor();

      expect((await fetch(url, signedRequest({ secret: 'the right one' }))).status).toBe(202);
      await page.goto(`/webhooks/${id}`);
      await waiting.getByText('No agent is subscribed to this webhook.').waitFor();
      await waiting.getByRole('link', { name: 'Show the event' }).waitFor();
      await operator.api('DELETE', `/api/v1/webhooks/${id}`);
    });
  });

  test('it is edited, disabled, enabled, rotated with an overlap, and deleted by its name', async () => {
    const made = await app.addWebhook({ name: 'to be changed' });
    const statusWith = async (secret: string | null) => (await fetch(made.url, signedRequest({ secret }))).status;
    await withTab(operator, async ({ page }) => {
      await page.goto(`/webhooks/${made.id}`);
      await page.getByRole('link', { name: 'Settings' }).click();
      await page.getByRole('link', { name: 'Edit' }).click();
      await page.getByRole('heading', { level: 1, name: /Edit/ }).waitFor();
      await page.getByLabel('Name', { exact: true }).fill('changed');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('heading', { level: 1, name: /changed/ }).waitFor();

      await page.getByText('Saved.').waitFor();
      await page.getByText('Disable…').click();
      await page.getByRole('button', { name: 'Disable now' }).click();
      await page.getByText('The webhook is disabled. Requests get a 410 response.').waitFor();
      expect(await statusWith(made.secret)).toBe(410);
      await page.getByRole('button', { name: 'Enable' }).click();
      await page.getByText('The webhook is enabled.').waitFor();
      await page.reload();
      expect(await page.locator('.notice').count()).toBe(0);

      await page.getByRole('link', { name: 'Secret' }).click();
      await page.getByText('Rotate secret…').click();
      await page.getByRole('button', { name: 'Rotate secret now' }).click();
      await page.locator('.once code').waitFor();
      const { secret } = await readMade(page);
      expect([await statusWith(secret), await statusWith(made.secret)]).toEqual([202, 202]);

      await page.getByRole('link', { name: 'I have stored it' }).click();
      await page.locator('.once').waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'Settings' }).click();
      await page.getByLabel('Type its name').fill('another');
      await page.getByRole('button', { name: 'Delete webhook' }).click();
      await page.getByText('Type changed to confirm.').waitFor();
      await until(async () => (await page.evaluate('document.activeElement.name')) === 'confirmed');
      await page.getByLabel('Type its name').fill('changed');
      await page.getByRole('button', { name: 'Delete webhook' }).click();
      await page.getByText('Deleted.').waitFor();
      expect(await statusWith(secret)).toBe(404);
    });
  });
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
