/** The journey of a new user with the keyboard alone: no pointer, and nothing that scripts of the test do for the user. */
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);
let page: Page;
beforeAll(async () => {
  // Without one, Weir shows the set-up.
  await addPerson(app, 'administrator');
});

/** Presses Tab until the focus is on an element of this role whose accessible name has the text. */
async function tabTo(role: 'link' | 'button' | 'textbox', name: string): Promise<void> {
  const wanted = page.getByRole(role, { name });
  await wanted.first().waitFor();
  for (let presses = 0; presses < TABS_MAX; presses++) {
    if ((await wanted.and(page.locator(':focus')).count()) === 1) return expectVisibleFocus();
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not reach the ${role} ${name}`);
}

/** More than any page has to offer. */
const TABS_MAX = 120;

async function expectVisibleFocus(): Promise<void> {
  const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
  expect(outline).not.toBe('none');
}

async function press(role: 'link' | 'button', name: string): Promise<void> {
  await tabTo(role, name);
  await page.keyboard.press('Enter');
}

async function type(name: string, text: string): Promise<void> {
  await tabTo('textbox', name);
  await page.keyboard.type(text);
}

const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor();

test('a person signs in, creates a webhook, tests it, reads the event and signs out', async () => {
  const person = await addPerson(app, 'operator', PASSWORD);
  page = (await openTab(app, null)).page;
  await page.goto('/webhooks');
  await type('Email', person.email);
  await type('Password', PASSWORD);
  await page.keyboard.press('Enter');
  await heading('Webhooks');

  await press('link', 'New webhook');
  await heading('New webhook');
  await press('link', 'HMAC-SHA256 in hex (default)');
  await type('Name', 'shop');
  await page.keyboard.press('Enter');
  await heading('shop');
  await press('link', 'I have stored it');
  await page.locator('.once').waitFor({ state: 'detached' });
  await press('link', 'Send test');
  await heading('Send a test');
  await press('button', 'Send');
  // Keys that are pressed earlier lead to a page that this one then replaces.
  await heading('shop');

  // g e: go to the events; j: the first row; Enter: open it.
  await page.locator('main').focus();
  await page.keyboard.press('g');
  await page.keyboard.press('e');
  await page.waitForURL('/events');
  await page.locator('main tbody tr').first().waitFor();
  await page.keyboard.press('j');
  await expectVisibleFocus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/events\/[0-9a-f-]{36}/);

  // The first Tab of a page leads past the navigation.
  await page.reload();
  await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
  await page.keyboard.press('Enter');
  expect(await page.evaluate('document.activeElement.id')).toBe('main');

  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await press('button', 'Sign out');
  await page.waitForURL(/\/sign-in/);
});

/** The command field: Ctrl K opens it on every page; it offers what the page can do, the places of the menu, and what the search finds. */
test('finds a webhook by a part of its name, an action of the page, and a place, with the keyboard alone', async () => {
  const operator = await addPerson(app, 'operator');
  const webhook = await app.addWebhook({ name: 'Shop orders' });
  const tab = await ofTest(openTab(app, operator));
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
});
