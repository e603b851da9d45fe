/** The form for the filter of a subscription, in a browser. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, send } from '../helpers/agents.ts';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook({ name: 'orders', event_type_from: 'json:/type' }));
const agent = shared(() => addAgent(app, [webhook]));
beforeAll(async () => {
  for (const type of ['paid', 'created']) await send(webhook, JSON.stringify({ type }));
});

test('a filter is corrected, tried on stored events, saved, shown, and removed', async () => {
  const { page, complaints, close } = await openTab(app, operator);
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
  const { body } = await operator.api('GET', `/api/v1/agents/${agent.id}/webhooks`);
  expect(body.items).toEqual([{ webhook_id: webhook.id, name: 'orders', filter: null, order_by: null }]);
  expect(complaints.filter((complaint) => !/status of 422/.test(complaint))).toEqual([]);
  await close();
});
