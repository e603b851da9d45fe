/** Replay of all events that match, from the list of events, with and without JavaScript. */
import { expect, test } from 'vitest';
import { addAgent, storeEvents } from '../helpers/agents.ts';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { FAST, startRunner } from '../helpers/jobs.ts';
import { addPerson } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(() => startPagesApp({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 }));
const operator = shared(() => addPerson(app, 'operator'));

test.each([true, false])(
  'a replay of matching events asks with the count, then shows the job (JavaScript: %s)',
  async (javaScriptEnabled) => {
    const webhook = await app.addWebhook({ name: `shop ${javaScriptEnabled}` });
    await addAgent(app, [webhook]);
    await storeEvents(app.database, webhook.id, 120, Date.now() - 1_000);
    const tab = await ofTest(openTab(app, operator, { javaScriptEnabled }));
    await tab.page.goto(`/events?webhook_id=${webhook.id}`);
    const open = async () => {
      await tab.page.getByRole('link', { name: 'Replay all that match' }).click();
      await tab.page.getByRole('button', { name: 'Replay 120 events' }).click();
      await tab.page.waitForURL(/\/events\/replays\/[0-9a-f-]{36}/);
    };
    await open();
    const job = tab.page.locator('#job');
    await job.getByText('queued').waitFor();
    if (javaScriptEnabled) expect(await accessibilityViolations(tab.page)).toEqual([]);
    await job.getByRole('button', { name: 'Cancel' }).click();
    await job.getByText('cancelled').waitFor();

    await tab.page.goto(`/events?webhook_id=${webhook.id}`);
    await open();
    await ofTest(startRunner(app, FAST));
    await until(async () => {
      if (!javaScriptEnabled) await tab.page.reload();
      return (await job.getByText('done', { exact: true }).count()) === 1;
    });
    expect(await job.textContent()).toMatch(/Events replayed\s*120\s*New deliveries\s*120/);
    await tab.page.goto('/events/replays');
    expect(await tab.page.locator('#jobs tbody tr').count()).toBeGreaterThanOrEqual(2);
    expect(tab.complaints).toEqual([]);
  },
);

test.each([true, false])('shows the deliveries of a chosen agent before the button (JavaScript: %s)', async (js) => {
  const webhook = await app.addWebhook();
  await addAgent(app, [webhook]);
  const stranger = await addAgent(app);
  await storeEvents(app.database, webhook.id, 7, Date.now() - 1_000);
  const tab = await ofTest(openTab(app, operator, { javaScriptEnabled: js }));
  await tab.page.goto(`/events/replay?webhook_id=${webhook.id}`);
  const numbers = tab.page.locator('#preview');
  expect(await numbers.locator('tbody .num').allTextContents()).toEqual(['7', '0']);
  await tab.page.locator(`input[value="${stranger.id}"]`).check();
  if (!js) await tab.page.getByRole('button', { name: 'Update the numbers' }).click();
  await numbers.getByText('7 more deliveries').waitFor();
  expect(await numbers.locator('tbody .num').allTextContents()).toEqual(['0', '7']);
  // The new numbers come with a new button, which would miss a click that began on this one.
  if (js) await tab.page.locator('#replay').evaluate((element) => element.setAttribute('data-before', ''));
  await tab.page.getByLabel('Also deliver what subscriptions').check();
  await tab.page.locator('#replay:not([data-before])').waitFor();
  await tab.page.getByRole('button', { name: 'Replay 7 events' }).click();
  await tab.page.locator('#job').getByText('Not applied').waitFor();
  expect(tab.complaints).toEqual([]);
});
