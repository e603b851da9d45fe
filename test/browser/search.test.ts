/** A text search that takes longer than one request. */
import { beforeAll, expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

/** More than the first slice of a search. */
const HAY = 3_000;
const app = shared(startPagesApp);
const viewer = shared(() => addPerson(app, 'viewer'));
/** Its one event is older than those of the other webhook. */
let quietId: string;
beforeAll(async () => {
  const webhook = await app.addWebhook();
  quietId = (await app.addWebhook()).id;
  const insert = (count: number, minutesAgo: number, body: string, webhookId = webhook.id) =>
    app.sql(
      `insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
             select uuidv7.id, $1::uuid, uuidv7.at, '203.0.113.1', '', null, convert_to($4, 'UTF8'), 1
             from (
               select date_trunc('milliseconds', now()) - make_interval(mins => $3::int) as at,
                 (substr(lpad(to_hex((extract(epoch from date_trunc('milliseconds', now()) - make_interval(mins => $3::int)) * 1000)::bigint), 12, '0'), 1, 12)
                   || '7000' || '8000' || lpad(to_hex(i), 12, '0'))::uuid as id
               from generate_series(1, $2::int) i
             ) uuidv7`,
      webhookId,
      count,
      minutesAgo,
      body,
    );
  await insert(1, 140, 'the only one', quietId);
  await insert(1, 130, 'an old needle');
  await insert(HAY, 70, 'hay');
  await insert(1, 1, 'a new needle');
});

/** Holds the first slice of a search for longer than the time of the page that begins it, and less than that of a request of the API. */
async function slowly(open: () => Promise<unknown>, ms = 100): Promise<void> {
  let opened: Promise<unknown> = Promise.resolve();
  await app.database.transaction(async (query) => {
    await query({ text: 'lock table events in access exclusive mode' });
    opened = open();
    await until(async () => {
      // Outside the transaction, which sees the activity of its start.
      const rows = await app.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'from events'
         and clock_timestamp() - query_start > make_interval(secs => $1)`,
        ms / 1000,
      );
      return rows.length > 0;
    });
  });
  await opened;
}

test('goes on by itself, and adds what it finds', async () => {
  const tab = await ofTest(openTab(app, viewer));
  await slowly(() => tab.page.goto('/events?q=needle', { waitUntil: 'commit' }));
  await until(async () => (await tab.page.locator('#event-rows tr').count()) === 2);
  await tab.page.getByText(/^Searched back to/).waitFor({ state: 'detached' });
  expect(tab.complaints).toEqual([]);
});

test('says how far it has looked, and stops', async () => {
  const tab = await ofTest(openTab(app, viewer));
  // The next request is not answered before the user stops it.
  await tab.page.route(/cursor=/, () => {});
  await slowly(() => tab.page.goto('/events?q=needle', { waitUntil: 'commit' }));
  const progress = tab.page.getByText(/^Searched back to .+:\d\d\. /);
  await progress.waitFor();
  await tab.page.getByRole('button', { name: 'Stop' }).waitFor();
  expect(await accessibilityViolations(tab.page)).toEqual([]);
  await tab.page.getByRole('button', { name: 'Stop' }).click();
  await tab.page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
  expect(await progress.isVisible()).toBe(true);
  expect(await tab.page.locator('#event-rows tr').count()).toBe(1);
  expect(await tab.page.locator('#count-of').innerText()).toBe('1+ events');
  const link = await tab.page.getByRole('link', { name: 'Permanent link' }).getAttribute('href');
  expect(link).toMatch(/^\/events\?q=needle&to=.+Z$/);
});

test('is continued by a link without JavaScript', async () => {
  const tab = await ofTest(openTab(app, viewer, { javaScriptEnabled: false }));
  await slowly(() => tab.page.goto('/events?q=needle', { waitUntil: 'commit' }));
  await tab.page.getByRole('link', { name: 'Search further back' }).click();
  await tab.page.waitForURL(/cursor=/);
  expect(await tab.page.locator('#event-rows tr').count()).toBe(1);
});

test('for the newest events of a webhook has no limit', async () => {
  const tab = await ofTest(openTab(app, viewer));
  await slowly(() => tab.page.goto(`/webhooks/${quietId}`, { waitUntil: 'commit' }), 500);
  const events = tab.page.getByRole('region', { name: 'Requests', exact: true });
  await until(async () => (await events.locator('tbody tr').count()) === 1);
  expect(tab.complaints).toEqual([]);
});
