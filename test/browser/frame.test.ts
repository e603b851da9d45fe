import type { Request } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { Notices } from '../../server/pages/serve/notices.ts';
import { derivedKeys, loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { gate, until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
beforeAll(async () => {
  for (const name of ['alpha', 'beta']) await app.addWebhook({ name });
});

const schemeOf = 'getComputedStyle(document.documentElement).colorScheme';

test('the theme is switched in place, and without scripts by the server', async () => {
  const { page, close } = await openTab(app, operator);
  await page.goto('/webhooks');
  expect(await page.evaluate(schemeOf)).toBe('light dark');
  await page.getByRole('button', { name: 'dark' }).click();
  expect(await page.evaluate(schemeOf)).toBe('dark');
  expect(await page.getByRole('button', { name: 'dark' }).getAttribute('aria-pressed')).toBe('true');
  expect(await (await page.goto('/events'))!.text()).toContain('data-theme="dark"');
  await close();

  const plain = await ofTest(openTab(app, operator, { javaScriptEnabled: false }));
  await plain.page.goto('/webhooks?q=a');
  await plain.page.getByRole('button', { name: 'dark' }).click();
  expect(new URL(plain.page.url()).search).toBe('?q=a');
  expect(await plain.page.locator('html').getAttribute('data-theme')).toBe('dark');
});

test('on a phone the navigation is a menu that works without scripts', async () => {
  const { page } = await ofTest(openTab(app, operator, { javaScriptEnabled: false, width: 390 }));
  await page.goto('/events');
  const agents = page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Agents' });
  expect(await agents.isVisible()).toBe(false);
  await page.getByLabel('Menu').check({ force: true });
  await agents.click();
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();
});

test('a list is walked and opened by keys, which are shown and can be turned off', async () => {
  const { page, complaints } = await ofTest(openTab(app, operator));
  const focused = () => page.evaluate('document.activeElement.textContent');
  await page.goto('/webhooks');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  const second = await page.locator('tbody tr').nth(1).locator('a').first().textContent();
  expect(await focused()).toBe(second);
  await page.keyboard.press('k');
  const first = await page.locator('tbody tr').first().locator('a').first().textContent();
  expect(await focused()).toBe(first);
  await page.keyboard.press('/');
  await page.keyboard.type('jk?');
  const search = page.getByRole('search').getByRole('searchbox');
  expect(await search.inputValue()).toBe('jk?');
  await search.blur();

  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await dialog.waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);
  await dialog.getByRole('checkbox').uncheck();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await page.keyboard.press('?');
  expect(await dialog.isVisible()).toBe(false);
  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
  await dialog.getByRole('checkbox').check();
  await dialog.getByRole('button', { name: 'Close' }).click();

  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: first! }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  await page.getByRole('heading', { level: 1, name: 'Deliveries' }).waitFor();

  // A step back replaces the whole body.
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: first! }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  expect(complaints).toEqual([]);
});

test('a button that is a choice keeps its name while its form is sent', async () => {
  const { page } = await ofTest(openTab(app, operator));
  await page.goto('/events');
  await page.clock.install();
  const asked = new Promise((resolve) => page.route('**/events?*range=*', resolve));
  const lastHour = page.locator('main button.preset').first();
  await lastHour.click();
  await asked;
  await page.clock.runFor(1_000);
  expect(await lastHour.textContent()).toBe('Last hour');
});

test('a change shows a toast with Undo, and its button what it is doing', async () => {
  const webhook = await app.addWebhook({ name: 'gamma' });
  const { page, complaints } = await ofTest(openTab(app, operator));
  const notices = new Notices(derivedKeys(loadSecretsKeys(app.settings), 'notices')[0]!, Date.now);
  await page.goto(notices.addressWith('disabled', `/webhooks/${webhook.id}`, operator.sessionId));
  const toast = page.locator('.toast', { hasText: 'The webhook is disabled.' });
  await toast.waitFor();
  expect(await page.locator('main .notice').count()).toBe(0);
  // A reload, or a link that is passed on, does not show it again.
  expect(new URL(page.url()).search).toBe('');
  expect(await accessibilityViolations(page)).toEqual([]);
  const { opened: held, open: answer } = gate();
  await page.route('**/switch', async (route) => {
    await held;
    await route.continue();
  });
  await operator.api('PATCH', `/api/v1/webhooks/${webhook.id}`, { enabled: false });
  const sent = page.getByRole('button', { name: 'Undo' });
  await sent.click();
  await page.locator('.toast button[aria-busy="true"]', { hasText: 'Undoing…' }).waitFor();
  answer();
  await page.locator('.toast', { hasText: 'The webhook is enabled.' }).waitFor();
  await until(async () => (await operator.api('GET', `/api/v1/webhooks/${webhook.id}`)).body.enabled === true);
  expect(complaints).toEqual([]);
  await page.getByRole('link', { name: 'Agents' }).click();
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();
  expect(await page.locator('.toast').count()).toBe(0);
});

test('a new navigation aborts the one before it, whose form is carried out', async () => {
  const webhook = await app.addWebhook({ name: 'delta' });
  const { page } = await ofTest(openTab(app, operator));
  await page.goto(`/webhooks/${webhook.id}/test`);
  const { opened: shown, open: answer } = gate();
  const isForm = (request: Request) => request.method() === 'POST' && request.url().endsWith('/test');
  await page.route('**/test', async (route) => {
    const response = await route.fetch();
    await shown;
    // The browser has ended the request.
    await route.fulfill({ response }).catch(() => {});
  });
  const ended = Promise.race([
    page.waitForEvent('requestfailed', isForm).then(() => 'aborted'),
    page.waitForEvent('requestfinished', isForm).then(() => 'answered'),
  ]);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await until(
    async () => (await operator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`)).body.items.length === 1,
  );
  await page.keyboard.press('g');
  await page.keyboard.press('e');
  await page.getByRole('heading', { level: 1, name: 'Events' }).waitFor();
  answer();
  expect(await ended).toBe('aborted');
  expect(new URL(page.url()).pathname).toBe('/events');
});

test('a refresh that is answered after its page was left changes nothing', async () => {
  const { page, complaints } = await ofTest(openTab(app, operator));
  const { id } = (await operator.api('POST', '/api/v1/agents', { name: 'eta' })).body;
  const path = `/agents/${id}`;
  await page.goto(path);
  const { opened: left, open: answer } = gate();
  await page.route(`**${path}`, async (route) => {
    await left;
    await route.continue();
  });
  const isRefresh = (request: Request) => request.url().endsWith(path);
  const refresh = page.waitForRequest(isRefresh);
  await page.evaluate(`htmx.trigger('#agent-deliveries-live', 'live')`);
  await refresh;
  await page.getByRole('link', { name: 'Webhooks', exact: true }).first().click();
  await page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor();
  const finished = page.waitForEvent('requestfinished', isRefresh);
  answer();
  await finished;
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))');
  expect(complaints).toEqual([]);
});

test('a link opens its page under its URL, also when its list is refreshed before the response', async () => {
  const { page, complaints } = await ofTest(openTab(app, operator));
  const webhook = await app.addWebhook({ name: 'epsilon' });
  await operator.api('POST', `/api/v1/webhooks/${webhook.id}/test`);
  await page.goto(`/events?webhook_id=${webhook.id}`);
  const { opened: refreshed, open: answer } = gate();
  await page.route('**/events/*', async (route) => {
    await refreshed;
    await route.continue();
  });
  await page.locator('main tbody a').first().press('Enter');
  await page.evaluate(`new Promise((resolve) => {
    document.addEventListener('htmx:afterRequest', () => resolve(), { once: true });
    htmx.trigger('#events-live', 'live');
  })`);
  answer();
  await page.getByRole('heading', { level: 1, name: 'Event …' }).waitFor();
  expect(new URL(page.url()).pathname).toMatch(/^\/events\/./);
  expect(complaints).toEqual([]);
});
