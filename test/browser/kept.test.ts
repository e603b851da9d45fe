/** What a person must not lose: values that are shown once, and what was typed into a form. */
import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

test('a secret that is shown once stays until it is stored, and copying it is confirmed', async () => {
  const { page, context, complaints } = await ofTest(openTab(app, operator));
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const asked: string[] = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.type() === 'beforeunload' ? 'beforeunload' : dialog.message());
    return dialog.dismiss();
  });
  await page.goto('/webhooks/new?scheme=sha256');
  await page.getByLabel('Name', { exact: true }).fill('kept');
  await page.getByRole('button', { name: 'Create webhook' }).click();
  const secret = await page.locator('.once code').innerText();

  const copied = () => page.evaluate('navigator.clipboard.readText()');
  const copy = page.locator('.once').getByRole('button', { name: 'Copy', exact: true });
  await copy.click();
  await page
    .getByRole('status')
    .filter({ hasText: /^Copied$/ })
    .waitFor({ state: 'attached' });
  expect(await copied()).toBe(secret);
  await page.getByRole('button', { name: 'Copy as .env line' }).click();
  await until(async () => (await copied()) === `WEIR_SECRET=${secret}`);
  // The icon of a copy button becomes a tick, for a moment.
  const icon = page.evaluate(`new Promise((resolve) => {
    const look = () => {
      const copied = document.querySelector('.copy.copied');
      if (copied) resolve(getComputedStyle(copied, '::before').content);
    };
    new MutationObserver(look).observe(document.body, { subtree: true, attributeFilter: ['class'] });
  })`);
  await page.getByRole('button', { name: 'Copy the URL' }).click();
  expect(await icon).toBe('"✓"');
  expect(await accessibilityViolations(page)).toEqual([]);

  const address = page.url();
  await page.getByRole('link', { name: 'Events', exact: true }).first().click();
  await until(() => asked.length === 1);
  await page.goBack();
  await until(() => asked.length === 2);
  expect(asked).toEqual(Array(2).fill(expect.stringMatching(/^Secret has not been stored yet/)));
  await page.evaluate('location.reload()').catch(() => {});
  await until(() => asked.length === 3);
  expect(asked[2]).toBe('beforeunload');
  await until(() => page.url() === address);
  expect(await page.locator('.once code').innerText()).toBe(secret);

  await page.getByRole('link', { name: 'I have stored it' }).click();
  await page.locator('.once').waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Send test' }).click();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('The test request got a 202 response').waitFor();
  expect(asked).toHaveLength(3);
  expect(complaints).toEqual([]);
});

test('a form refused by a 503 or by the network stays with its secret, and is sent again', async () => {
  const { page, context } = await ofTest(openTab(app, operator));
  await page.goto('/webhooks/new?scheme=sha256');
  await page.getByLabel('Name', { exact: true }).fill('typed once');
  await page.getByLabel('Provided by the sender').check();
  await page.getByLabel('The sender’s secret').fill('typed once, too');
  await app.cutOff();
  await page.getByRole('button', { name: 'Create webhook' }).click();
  await page.locator('#refused').getByText('The database cannot be reached').waitFor();
  await app.restore();
  await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  expect(await accessibilityViolations(page)).toEqual([]);
  await context.setOffline(true);
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.locator('#refused').getByText('Weir does not respond.').waitFor();
  await context.setOffline(false);
  expect(await page.getByLabel('The sender’s secret').inputValue()).toBe('typed once, too');
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('heading', { level: 1, name: /typed once/ }).waitFor();
  const [made] = (await operator.api('GET', '/api/v1/webhooks?q=typed')).body.items;
  expect((await fetch(made.url, signedRequest({ secret: 'typed once, too' }))).status).toBe(202);
});

test('a form whose session ended stays, and is sent again after a new sign-in', async () => {
  const leaving = await addPerson(app, 'operator', PASSWORD);
  const { page, context } = await ofTest(openTab(app, leaving));
  await page.goto('/agents/new');
  await page.getByLabel('Name', { exact: true }).fill('typed before');
  await page.getByLabel('Your password').fill(PASSWORD);
  const [session] = await context.cookies();
  await context.clearCookies();
  await page.getByRole('button', { name: 'Create agent' }).click();
  await page.locator('#refused').getByText('You are signed out.').waitFor();
  const again = await addPerson(app, 'operator', PASSWORD);
  await context.addCookies([{ ...session!, value: again.cookie.split('=')[1]! }]);
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('heading', { level: 1, name: /typed before/ }).waitFor();
});
