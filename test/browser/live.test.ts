import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import { addAgent, send } from '../helpers/agents.ts';
import { type Overrides, startTestApp } from '../helpers/app.ts';
import { openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { freePort } from '../helpers/ports.ts';
import { signedRequest } from '../helpers/requests.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
/** No stream of a test is counted in the next one. */
afterEach(() => until(async () => (await app.metric('weir_streams')) === 0));

/** The text of the page about its connection, once it is not empty. */
async function diagnosis(overrides: Overrides): Promise<string> {
  const own = await ofTest(startPagesApp(overrides));
  const { page } = await openTab(own, await addPerson(own, 'viewer'));
  await page.goto('/events');
  const banner = page.locator('#connection');
  await banner.waitFor();
  return banner.innerText();
}

test('a page whose API is unreachable names FRONTEND_PUBLIC_API_URL', async () => {
  const nowhere = `http://127.0.0.1:${await freePort()}`;
  const text = await diagnosis({ FRONTEND_PUBLIC_API_URL: nowhere });
  expect(text).toContain(nowhere);
  expect(text).toContain('FRONTEND_PUBLIC_API_URL');
});

test('a page whose origin the API does not allow names CORS_ORIGINS and the value to set', async () => {
  const port = await freePort();
  const page = `http://127.0.0.1:${port}`;
  const text = await diagnosis({ PORT: port, PUBLIC_URL: page, FRONTEND_PUBLIC_API_URL: `http://localhost:${port}` });
  expect(text).toContain(`add ${page} to CORS_ORIGINS`);
});

test('a hidden page closes its stream, and an untouched page shows no message', async () => {
  const person = await addPerson(app, 'viewer');
  const tab = await openTab(app, person);
  await tab.page.goto('/events');
  await until(async () => (await app.metric('weir_streams')) === 1);
  expect(await tab.page.locator('#connection').isVisible()).toBe(false);
  await tab.page.goto('/webhooks/');
  await until(async () => (await app.metric('weir_streams')) === 0);
  await tab.close();
});

describe('a page that is open', () => {
  test('reconnects when Weir starts again, and shows while it is down that it does not respond', async () => {
    const port = await freePort();
    const settings = {
      PORT: port,
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      SECRETS_KEY: randomBytes(32).toString('base64'),
    };
    const host = await startTestApp({ SECRETS_KEY: settings.SECRETS_KEY });
    const before = await startTestApp(settings, host);
    const tab = await openTab(before, await addPerson(before, 'viewer'));
    await tab.page.goto('/events');
    await tab.page.getByText('No events yet').waitFor();
    await until(async () => (await before.metric('weir_streams')) === 1);
    await before.stop();
    await tab.page.getByText('Weir does not respond. This page reconnects automatically').waitFor();
    const after = await startTestApp(settings, host);
    const { url, secret } = await after.addWebhook();
    expect((await fetch(url, signedRequest({ secret }))).status).toBe(202);
    await tab.page.locator('#events tbody tr').waitFor();
    await tab.page.locator('#connection').waitFor({ state: 'hidden' });
    await tab.close();
    await after.stop();
    await host.stop();
  });

  test('keeps its content while the database is unavailable, shows its age, and repeats the refresh', async () => {
    const { url, secret } = await app.addWebhook();
    await fetch(url, signedRequest({ secret }));
    const tab = await openTab(app, await addPerson(app, 'viewer'));
    await tab.page.goto('/events');
    const rows = tab.page.locator('#events tbody tr');
    expect(await rows.count()).toBe(1);
    await app.cutOff();
    const refused = tab.page.waitForResponse((response) => response.status() === 503);
    await tab.page.evaluate("htmx.trigger('#events-live', 'live')");
    await refused;
    const stamp = tab.page.getByText(/^Not updated for \d+ s$/);
    await stamp.waitFor();
    expect(await rows.count()).toBe(1);
    await app.restore();
    await stamp.waitFor({ state: 'hidden' });
    await tab.close();
  });

  test('shows why a part that a link asks for is not there, instead of nothing', async () => {
    const { url, secret } = await app.addWebhook();
    const { id } = (await (await fetch(url, signedRequest({ secret }))).json()) as { id: string };
    const tab = await openTab(app, await addPerson(app, 'viewer'));
    await tab.page.goto(`/events/${id}`);
    await app.cutOff();
    await tab.page.getByRole('link', { name: 'Hex' }).click();
    await tab.page.getByText('This page tries again by itself.').waitFor();
    await app.restore();
    await tab.page.locator('#body-card [aria-current]:text("Hex")').waitFor();
    await tab.close();
  });

  test('keeps the progress of a job while the database is unavailable', async () => {
    const person = await addPerson(app, 'operator');
    await addAgent(app, [await app.addWebhook()]);
    const { job_id } = (await person.api('POST', '/api/v1/events/replay', {})).body;
    const tab = await openTab(app, person);
    await tab.page.goto(`/events/replays/${job_id}`);
    await tab.page.getByRole('button', { name: 'Cancel' }).focus();
    await tab.page.waitForResponse((response) => response.ok());
    await tab.page.locator('#job button:focus').waitFor();
    await app.cutOff();
    await tab.page.waitForResponse((response) => response.status() === 503);
    await app.restore();
    await tab.page.waitForResponse((response) => response.ok() && response.url().endsWith(job_id));
    await tab.page.locator('#job').getByText('queued').waitFor();
    await tab.close();
  });

  test('has what is beside a live part refreshed with it: states in the head, counts in tabs and lists', async () => {
    const webhook = await app.addWebhook();
    const agent = await addAgent(app, [webhook]);
    const event = await send(webhook);
    const person = await addPerson(app, 'operator');
    const delivery = (await person.api('GET', '/api/v1/deliveries')).body.items[0].id;
    const tab = await openTab(app, person);
    for (const [path, live, ...parts] of [
      [`/events/${event}`, 'event-deliveries', 'event-states', 'event-deliveries'],
      [`/deliveries/${delivery}`, 'delivery', 'delivery-actions', 'delivery'],
      ['/events', 'events', 'count-of', 'events'],
      [`/agents/${agent.id}`, 'flow', 'agent-state', 'flow'],
      [`/webhooks/${webhook.id}`, 'flow', 'flow'],
    ] as [string, string, ...string[]][]) {
      await tab.page.goto(path);
      for (const part of parts)
        await tab.page.locator(`#${part}`).evaluate((element) => element.setAttribute('data-before', ''));
      await tab.page.evaluate(`htmx.trigger('#${live}-live', 'live')`);
      for (const part of parts) await tab.page.locator(`#${part}:not([data-before])`).waitFor({ state: 'attached' });
    }
    expect(tab.complaints).toEqual([]);
    await tab.close();
  });

  test('keeps the keyboard focus on what has no id, in its row', async () => {
    const [webhook, other] = [await app.addWebhook(), await app.addWebhook()];
    const agent = await addAgent(app, [webhook, other]);
    for (const one of [webhook, other, webhook]) await send(one);
    const person = await addPerson(app, 'operator');
    const [, second, third] = (await person.api('GET', `/api/v1/deliveries?agent_id=${agent.id}`)).body.items;
    const tab = await openTab(app, person);
    await tab.page.goto(`/deliveries?agent_id=${agent.id}`);
    const list = tab.page.locator('#deliveries');
    for (const [delivery, chosen] of [
      [second, `a[href="/deliveries/${second.id}"]`],
      [third, `a[href="/webhooks/${webhook.id}"]`],
      [third, '.copy'],
    ]) {
      const row = list.locator('tr', { has: tab.page.locator(`a[href="/deliveries/${delivery.id}"]`) });
      await row.locator(chosen).focus();
      await list.evaluate((element) => element.setAttribute('data-before', ''));
      await tab.page.evaluate("htmx.trigger('#deliveries-live', 'live')");
      await tab.page.locator('#deliveries:not([data-before])').waitFor();
      await row.locator(`${chosen}:focus`).waitFor();
    }
    await tab.close();
  });

  test('is not refreshed while a form in it has what was typed, and says for how long', async () => {
    const webhook = await app.addWebhook();
    const agent = await addAgent(app, [webhook]);
    await send(webhook);
    await agent.claimOne();
    await app.sql(`update deliveries set state = 'dead', finished_at = now() where agent_id = $1`, agent.id);
    const tab = await openTab(app, await addPerson(app, 'operator'));
    await tab.page.goto(`/issues?subject_id=${agent.id}`);
    await tab.page.getByText('Assign, note, snooze').click();
    await tab.page.mouse.move(0, 0);
    const isUsed = () => tab.page.evaluate("isUsed(document.getElementById('issues'))");
    await until(async () => !(await isUsed()));
    await tab.page.locator('textarea[name="note"]').fill('the sender knows');
    await tab.page.getByRole('button', { name: 'Save' }).focus();
    expect(await isUsed()).toBe(true);
    await tab.page.locator('textarea[name="note"]').fill('');
    await tab.page.locator('select[name="snooze"]').selectOption('1d');
    await tab.page.getByRole('button', { name: 'Save' }).focus();
    expect(await isUsed()).toBe(true);
    // Half a minute later, the part says so.
    await tab.page.evaluate("renew('counters'); stateOf(document.getElementById('issues-live')).goodMs -= 31_000");
    await tab.page.locator('#issues-live', { hasText: /^Not updated for \d\d s$/ }).waitFor();
    expect(await tab.page.locator('#issues').getAttribute('data-old')).toBeNull();
    await tab.close();
  });

  test('shows that its session has ended, and leads to the sign-in page and back', async () => {
    const person = await addPerson(app, 'viewer');
    const tab = await openTab(app, person);
    await tab.page.goto('/events?q=kept');
    await until(async () => (await app.metric('weir_streams')) === 1);
    await person.browse('DELETE', '/api/v1/session');
    await tab.page.getByText('You are signed out.').waitFor();
    await tab.page.getByRole('link', { name: 'Sign in' }).click();
    await tab.page.waitForURL(/sign-in\?return_to=%2Fevents%3Fq%3Dkept/);
    await tab.close();
  });
});
