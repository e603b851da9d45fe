/** The form for the filter of a subscription, in a browser. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addAgent, send, type TestAgent } from '../helpers/agents.ts';
import type { TestApp, TestWebhook } from '../helpers/app.ts';
import { accessibilityViolations, closeTabs, openTab, startBrowser, startPagesApp } from '../helpers/browser.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let browser: Browser;
let operator: TestPerson;
let webhook: TestWebhook;
let agent: TestAgent;
beforeAll(async () => {
  [app, browser] = await Promise.all([startPagesApp(), startBrowser()]);
  operator = await addPerson(app, 'operator');
  webhook = await app.addWebhook({ name: 'orders', event_type_from: 'json:/type' });
  agent = await addAgent(app, [webhook]);
  for (const type of ['paid', 'created']) await send(webhook, JSON.stringify({ type }));
});
afterAll(async () => {
  await closeTabs(browser);
  await app?.stop();
});

test('a filter is corrected, tried on stored events, saved, shown, and removed', async () => {
  const { page, complaints, close } = await openTab(browser, app, operator);
  await page.goto(`/agents/${agent.id}`);
  await page.getByRole('link', { name: 'Add filter of orders' }).click();
  const field = page.getByLabel('Deliver only events for which this is true');
  await field.fill('body.typ == "paid" &&');
  await page.getByRole('button', { name: 'Save' }).click();
  const error = page.locator('.field.has-error .error');
  await error.waitFor();
  expect(await error.innerText()).toMatch(/^Character \d+: /);
  expect(await field.inputValue()).toBe('body.typ == "paid" &&');
  expect(await field.getAttribute('aria-invalid')).toBe('true');
  expect(await accessibilityViolations(page)).toEqual([]);

  await field.fill('body.type == "paid"');
  await page.getByRole('button', { name: 'Try on stored events' }).click();
  const tried = page.locator('section:has(#tried)');
  await tried.getByText('1 event would be delivered, 1 event filtered.').waitFor();
  expect(await tried.getByRole('link').allTextContents()).toEqual(['created', 'paid']);
  expect(await tried.locator('.tag').allTextContents()).toEqual(['filtered', 'passed']);
  expect(await field.inputValue()).toBe('body.type == "paid"');
  expect(await accessibilityViolations(page)).toEqual([]);

  await page.getByRole('button', { name: 'Save' }).click();
  await page.waitForURL(`**/agents/${agent.id}?*`);
  const shown = page.locator('code.filter');
  expect(await shown.innerText()).toBe('body.type == "paid"');

  await page.getByRole('link', { name: 'Change of orders' }).click();
  await field.fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('link', { name: 'Add filter of orders' }).waitFor();
  expect(await shown.count()).toBe(0);
  const { body } = await operator.api('GET', `/api/v1/agents/${agent.id}`);
  expect(body.subscriptions).toEqual([{ webhook_id: webhook.id, filter: null }]);
  expect(complaints.filter((complaint) => !/status of 422/.test(complaint))).toEqual([]);
  await close();
});
