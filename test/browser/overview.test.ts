/** The overview in a browser: issues, the chart under pointer and keys, and refreshes that disturb neither. */
import { beforeAll, expect, test } from 'vitest';
import { Tally } from '../../server/manage/live/tally.ts';
import { addHistory } from '../../server/store/queries/webhooks/history.ts';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const viewer = shared(() => addPerson(app, 'viewer'));
beforeAll(async () => {
  const webhook = await app.addWebhook({ name: 'Linear' });
  const minuteMs = Math.floor(Date.now() / 60_000) * 60_000;
  await addHistory(app.database, [
    { webhookId: webhook.id, minuteMs, accepted: 1_204, rejected: 40 },
    { webhookId: webhook.id, minuteMs: minuteMs - 26 * 3_600_000, accepted: 96 },
  ]);
});

/** The chart of requests, once it is read by pointer and keys. */
const chart = '.plot .chart[tabindex]';

test('without JavaScript it states the issues, draws the chart, and shows its values', async () => {
  const tab = await ofTest(openTab(app, viewer, { javaScriptEnabled: false }));
  await tab.page.goto('/');
  await tab.page.getByText('1 issue needs a person', { exact: true }).waitFor();
  await tab.page.getByText('40 requests to webhook Linear were rejected in the last hour').waitFor();
  const label = 'Requests in the last 24 hours: 1,204 accepted, 40 rejected, 0 rate limited';
  expect(await tab.page.getByRole('img', { name: label }).count()).toBe(1);
  await tab.page.getByText('Values as a table').click();
  await tab.page.getByRole('cell', { name: '1,204' }).first().waitFor();
  await tab.page.getByRole('link', { name: '7 d' }).click();
  expect(await tab.page.getByRole('img', { name: '1,300 accepted' }).count()).toBe(1);
  await tab.page.getByRole('link', { name: 'See why' }).click();
  await tab.page.waitForURL(/\/rejections\?webhook_id=/);
});

test('the chart shows values under the pointer and by arrow keys, also after a refresh', async () => {
  const tab = await ofTest(openTab(app, viewer));
  const { page } = tab;
  await page.goto('/webhooks');
  // By navigation within the page, which loads the scripts of the chart.
  await page.getByRole('link', { name: 'Overview' }).click();
  const plot = page.locator(chart);
  await plot.waitFor();
  expect(await plot.getAttribute('aria-label')).toMatch(
    /; most accepted at \d{4}-\d\d-\d\d \d\d:\d\d\. Use the arrow keys/,
  );
  await plot.focus();
  // The half hour of the requests may be over.
  await until(async () => {
    await page.keyboard.press('ArrowLeft');
    return (await page.getByText(/: 1,204 accepted, 40 rejected, 0 rate limited, 0 refused$/).count()) === 1;
  });
  await page.keyboard.press('ArrowLeft');
  await page.getByText(/: 0 accepted, 0 rejected, 0 rate limited, 0 refused$/).waitFor();
  await plot.hover({ position: { x: 200, y: 80 } });
  await page.getByText(/^\d{4}-\d\d-\d\d \d\d:\d\d: 0 accepted/).waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);

  await page.getByText('Values as a table').click();
  await page.locator('h1').hover();
  await plot.evaluate((element) => element.setAttribute('data-before', ''));
  const tally = new Tally(Date.now());
  tally.take(process.pid, app.app.sample(), Date.now());
  app.app.live(tally.second(Date.now(), null));
  await page.locator(`${chart}:not([data-before])`).waitFor();
  expect(await page.locator('.readout').count()).toBe(1);
  expect(await page.locator('#traffic-values').getAttribute('open')).toBe('');
  await page.getByRole('link', { name: '30 d' }).click();
  await page.waitForURL('/?range=30d');
  await page.locator(chart).waitFor();
  expect(tab.complaints).toEqual([]);
});

test('a point of the chart leads to the events of its time, by a click or by keys', async () => {
  const tab = await ofTest(openTab(app, viewer));
  const { page } = tab;
  await page.goto('/');
  const plot = page.locator(chart);
  await plot.focus();
  await page.keyboard.press('ArrowLeft');
  const shown = await page.getByRole('link', { name: 'Show events' }).getAttribute('href');
  const given = new URL(shown!, page.url()).searchParams;
  expect(Date.parse(given.get('to')!) - Date.parse(given.get('from')!)).toBe(1_800_000);
  await page.keyboard.press('Enter');
  await page.waitForURL(({ pathname, search }) => pathname + search === shown);
  await page.goBack();
  await plot.click({ position: { x: 200, y: 80 } });
  await page.waitForURL(/\/events\?from=/);
  expect(tab.complaints).toEqual([]);
});
