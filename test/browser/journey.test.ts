/** All steps of a user with only a browser, from the first start on: one Weir, with its primary and two processes. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, TestAgent } from '../helpers/agents.ts';
import { closeTabs, openTab, type Tab } from '../helpers/browser.ts';
import { signedRequest } from '../helpers/requests.ts';
import { gate } from '../helpers/wait.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

let weir: Weir;
let tab: Tab;
let page: Page;
let url: string;
beforeAll(async () => {
  // The second attempt is the last: a delivery becomes a dead letter while its page is open.
  weir = await startWeir({ DELIVERY_MAX_ATTEMPTS: 1 });
  url = `http://127.0.0.1:${weir.port}`;
  tab = await openTab({ url }, null);
  page = tab.page;
});
afterAll(async () => {
  await closeTabs();
  await weir?.stop();
});

const heading = (name: RegExp) => page.getByRole('heading', { level: 1, name }).waitFor();
const rejections = async () => {
  await go('Events');
  await page.getByRole('navigation', { name: 'Events' }).getByRole('link', { name: 'Rejections' }).click();
};
const go = (name: string) => page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name }).click();

test('from set-up to a second user with the role viewer', async () => {
  // The setup URL stands in the log.
  const { url: setupAddress } = weir.events('setup_address')[0] as { url: string };
  await page.goto(setupAddress);
  await page.getByLabel('Email').fill('first@example.org');
  await page.getByLabel('Password', { exact: true }).fill('correct horse battery staple');
  await page.getByRole('button').first().click();
  await heading(/Overview/);

  // A webhook, its address and its secret.
  await page.getByRole('link', { name: 'Create webhook' }).click();
  await page.getByRole('link', { name: 'HMAC-SHA256 in hex' }).click();
  await page.getByLabel('Name', { exact: true }).fill('shop');
  await page.getByRole('button', { name: 'Create webhook' }).click();
  await heading(/shop/);
  const secret = await page.locator('.once code').innerText();
  const address = await page.locator('.address code').innerText();
  expect(await page.locator('section:has(h2:text("Try it")) pre').first().innerText()).toContain(address);
  await page.getByRole('link', { name: 'I have stored it' }).click();
  await page.locator('.once').waitFor({ state: 'detached' });

  // An agent, and its credential.
  await go('Agents');
  await page.getByRole('link', { name: 'Create agent' }).click();
  await page.getByLabel('Name', { exact: true }).fill('packer');
  await page.getByLabel('shop').check();
  await page.getByLabel('Your password').fill('correct horse battery staple');
  await page.getByRole('button', { name: 'Create agent' }).click();
  const credential = await page.locator('.once code').innerText();
  const agentPath = await page
    .getByText(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
    .first()
    .textContent();
  await page.getByRole('link', { name: 'I have stored it' }).click();
  await page.locator('.once').waitFor({ state: 'detached' });

  // The first event appears by itself, on the overview too.
  await go('Overview');
  await heading(/Overview/);
  await page.getByText('Waiting for your first event…').waitFor();
  expect((await fetch(address, signedRequest({ secret, body: '{"order":1}' }))).status).toBe(202);
  await page.getByText('Waiting for the first acknowledged delivery…').waitFor();
  expect(await page.title()).toBe('Overview · Weir');
  await page.getByText('All good:').waitFor();
  await go('Status');
  await page.locator('#runtime .tag:text("serving")').nth(1).waitFor();
  await go('Events');
  await page.locator('#events tbody a[href^="/events/"]').first().click();
  await heading(/Event/);
  expect(await page.locator('#body-card .tree').innerText()).toMatch(/order\W+1/);

  // A sender with another secret is refused with the reason, and accepted once the webhook has that secret.
  expect((await fetch(address, signedRequest({ secret: 'the secret of the sender' }))).status).toBe(403);
  await rejections();
  await page.locator('#rejections tbody a').first().click();
  await heading(/Wrong secret, most likely/);
  await page.getByRole('link', { name: 'shop' }).first().click();
  await page.getByRole('link', { name: 'Secret', exact: true }).click();
  await page.getByText('Rotate secret…').click();
  await page.getByLabel('New secret').fill('the secret of the sender');
  await page.getByRole('button', { name: 'Rotate secret now' }).click();
  await page.getByText('The new secret is active.').waitFor();
  await rejections();
  await page.locator('#rejections tbody a').first().click();
  await page.getByRole('button', { name: 'Check again' }).click();
  await page.getByRole('heading', { name: 'The request verifies now.' }).waitFor();
  await page.getByRole('button', { name: 'Accept' }).click();
  await page.getByText('The rejected request is stored as this event.').waitFor();
  await page.goBack();
  await rejections();
  await page.locator('#rejections .tag', { hasText: 'accepted' }).waitFor();

  // The agent gives up on the delivery while its page is open, and gets it again after a replay.
  const agent = new TestAgent(url, { id: agentPath!, credential }, await signIn({ url }, credential));
  await go('Agents');
  await page.getByRole('link', { name: 'packer' }).click();
  await heading(/packer/);
  const [delivery] = await agent.claim();
  await agent.post('nack', { receipts: [delivery!.receipt], reason: 'no such shelf' });
  const dead = page.locator('section:has(#s-dead)');
  await dead.getByText('no such shelf').waitFor();
  await dead.locator('tbody a').first().click();
  await heading(/Delivery/);
  await page.getByRole('button', { name: 'Replay', exact: true }).click();
  await page.getByText('Replayed: pending again.').waitFor();
  expect((await agent.claim({ wait_seconds: 5 })).map(({ event }) => event.id)).toEqual([delivery!.event.id]);

  // A colleague may look.
  await go('Users');
  await page.getByRole('link', { name: /New user/ }).click();
  await page.getByLabel('Email').fill('colleague@example.org');
  await page.getByLabel('Role').selectOption('viewer');
  await page.getByLabel('Your password').fill('correct horse battery staple');
  await page.getByRole('main').getByRole('button').last().click();
  const { pathname, search, hash } = new URL(await page.locator('.once code').innerText());
  const theirs = await openTab({ url }, null);
  await theirs.page.goto(`${pathname}${search}${hash}`);
  await theirs.page.getByLabel('Password').fill('quite another battery staple');
  await theirs.page.getByRole('button', { name: 'Set password and sign in' }).click();
  await theirs.page.getByRole('link', { name: 'Webhooks' }).first().click();
  await theirs.page.getByRole('link', { name: 'shop', exact: true }).first().waitFor();
  expect(await theirs.page.getByRole('link', { name: 'New webhook' }).count()).toBe(0);
  expect([tab.complaints, theirs.complaints]).toEqual([[], []]);
});

test('a new page opened before going back is complete stays open', async () => {
  await page.goto('/');
  await go('Webhooks');
  await heading(/Webhooks/);
  const { opened: released, open: answerStepBack } = gate();
  await page.route('/', async (route) => {
    await released;
    await route.continue().catch(() => {});
  });
  const isAsked = page.waitForRequest((request) => request.headers()['hx-history-restore-request'] === 'true');
  await page.goBack();
  const late = await isAsked;
  await go('Agents');
  await heading(/Agents/);
  answerStepBack();
  await late.response().catch(() => null);
  await page.unroute('/');
  await heading(/Agents/);
  expect(new URL(page.url()).pathname).toBe('/agents');
  // The count before the title may be of the dead letter of the first test, until the counts are read again.
  expect(await page.title()).toMatch(/^(\(1\) )?Agents · Weir$/);
});

test('going back and forward restores the pages, and new pages start at the top', async () => {
  await page.goto('/');
  await go('Webhooks');
  await heading(/Webhooks/);
  expect(await page.evaluate('document.activeElement.id')).toBe('main');
  await page.goBack();
  await heading(/Overview/);
  expect(await page.locator('.nav [aria-current]').innerText()).toBe('Overview');
  await page.goForward();
  await heading(/Webhooks/);
  expect(await page.locator('.nav [aria-current]').innerText()).toBe('Webhooks');
  expect(await page.title()).toMatch(/^(\(1\) )?Webhooks · Weir$/);
});

test('times are in the time zone of the browser, with UTC on hover', async () => {
  await page.goto('/events');
  const time = page.locator('#events time').first();
  const iso = (await time.getAttribute('datetime'))!;
  const utc = `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
  expect(await time.innerText()).toMatch(/ ago$/);
  const local = new Date(iso).toLocaleString('sv-SE', { timeZone: 'Europe/Berlin' });
  expect(await time.getAttribute('title')).toBe(`${local} (${utc})`);
  await page.locator('#events tbody a').first().click();
  const absolute = page.locator(`#event-states time[datetime="${iso}"]`);
  expect(await absolute.getAttribute('title')).toBe(utc);
  expect(await absolute.innerText()).toBe(local);
});
