import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTab, startBrowser, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { freePort } from '../helpers/ports.ts';

let browser: Browser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(() => browser?.close());

/** What the page says of its connection, once it says something. */
async function diagnosis(overrides: Parameters<typeof startPagesApp>[0], path = '/events'): Promise<string> {
  const app = await startPagesApp(overrides);
  try {
    const tab = await openTab(browser, app, await addPerson(app, 'viewer'));
    await tab.page.goto(path);
    const banner = tab.page.locator('#connection');
    await banner.waitFor();
    const text = await banner.innerText();
    await tab.close();
    return text;
  } finally {
    await app.stop();
  }
}

test('a page whose API cannot be reached names FRONTEND_PUBLIC_API_URL', async () => {
  const nowhere = `http://127.0.0.1:${await freePort()}`;
  const text = await diagnosis({ FRONTEND_PUBLIC_API_URL: nowhere });
  expect(text).toContain(nowhere);
  expect(text).toContain('FRONTEND_PUBLIC_API_URL');
});

test('a page whose origin the API does not know names CORS_ORIGINS, and what to put there', async () => {
  const port = await freePort();
  const page = `http://127.0.0.1:${port}`;
  const text = await diagnosis({ PORT: port, PUBLIC_URL: page, FRONTEND_PUBLIC_API_URL: `http://localhost:${port}` });
  expect(text).toContain(`add ${page} to CORS_ORIGINS`);
});

test('a page that is left alone says nothing, and one that is hidden closes its stream', async () => {
  const app = await startPagesApp();
  const person = await addPerson(app, 'viewer');
  const tab = await openTab(browser, app, person);
  await tab.page.goto('/events');
  await expect.poll(() => app.metric('weir_streams')).toBe(1);
  expect(await tab.page.locator('#connection').isVisible()).toBe(false);
  await tab.page.goto('/webhooks/');
  await expect.poll(() => app.metric('weir_streams')).toBe(0);
  await tab.close();
  await app.stop();
});
