/** The command field: Ctrl K opens it on every page; it offers what the page can do, the places of the menu, and what the search finds. */
import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);

test('finds a webhook by a part of its name, an action of the page, and a place, with the keyboard alone', async () => {
  const operator = await addPerson(app, 'operator');
  const webhook = await app.addWebhook({ name: 'Shop orders' });
  const tab = await openTab(app, operator);
  const { page } = tab;
  const chosen = page.locator('#command [aria-selected="true"]');
  const command = async (text: string, found: string) => {
    await page.keyboard.press('Control+k');
    await page.keyboard.type(text);
    await chosen.filter({ hasText: found }).waitFor();
  };
  await page.goto('/');
  await command('orders', 'Shop orders');
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/webhooks/${webhook.id}`);

  await command('send te', 'Send test');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/webhooks/${webhook.id}/test`);

  await command('e', 'Overview');
  const before = await chosen.textContent();
  await page.keyboard.press('ArrowDown');
  expect(await chosen.textContent()).not.toBe(before);
  await page.keyboard.press('Escape');
  expect(await page.locator('#command').isVisible()).toBe(false);

  await command('agen', 'Agents');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/agents');

  await command(webhook.id, 'Found');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/webhooks/${webhook.id}`);
  expect(tab.complaints).toEqual([]);
  await tab.close();
});
