/** The numbers of requests on the list of webhooks and on the page of one. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { recordBuild } from '../../../server/store/audit/record.ts';
import { addOutages } from '../../../server/store/queries/alerts/issues.ts';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { startAgentApp, storeEvents } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const viewer = shared(() => addPerson(app, 'viewer'));

const get = async (path: string) => (await fetch(app.url + path, { headers: { cookie: viewer.cookie } })).text();

test('the list of webhooks shows for each its events, the share not accepted, and its URL to copy', async () => {
  const [busy, quiet] = [await app.addWebhook({ name: 'Busy' }), await app.addWebhook({ name: 'Quiet' })];
  await addHistory(app.database, [
    { webhookId: busy.id, minuteMs: Date.now(), accepted: 1_980, rejected: 10, limited: 6, too_large: 4 },
  ]);
  const page = await get('/webhooks');
  const cellsOf = (id: string) => {
    const row = page.split('<tr>').find((one) => one.includes(`href="/webhooks/${id}"`))!;
    return ['Events, 24 h', 'Not accepted'].map((label) => row.split(`data-label="${label}">`)[1]!.split('<')[0]);
  };
  expect(cellsOf(busy.id)).toEqual(['1,980', '1.0 %']);
  expect(cellsOf(quiet.id)).toEqual(['0', '–']);
  expect(page).toMatch(new RegExp(`data-copy="http[^"]*${busy.id}"`));
});

test('the page of a webhook has a chart per hour, and its tabs', async () => {
  const { id } = await app.addWebhook({ name: 'Shop' });
  await addHistory(app.database, [{ webhookId: id, minuteMs: Date.now(), accepted: 1_980, rejected: 15, limited: 5 }]);
  await storeEvents(app.database, id, 1);
  const page = await get(`/webhooks/${id}`);
  expect(page).toContain('aria-label="Requests in the last 24 hours: 1,980 accepted, 15 rejected, 5 rate limited');
  expect(page).toContain('<title>Not over yet</title>');
  const tabs = page.split('aria-label="This webhook">')[1]!.split('</nav>')[0]!;
  expect(
    tabs
      .replace(/<[^>]*>/g, '')
      .replace(/\s+/g, ' ')
      .trim(),
  ).toBe('RequestsRejectionsSettingsSecret');
});

test('an invalid filter of the requests is named, with the way back', async () => {
  const { id } = await app.addWebhook({ name: 'Filtered' });
  const page = await get(`/webhooks/${id}?status=none&from=yesterday`);
  for (const name of ['status', 'from'])
    expect(page).toMatch(
      new RegExp(
        `The filter <code>${name}</code> in the URL is not valid\\. .+ <a href="/webhooks/${id}">Show all requests`,
      ),
    );
  expect(page).not.toContain('No matching requests');
  expect(await get(`/webhooks/${id}?cursor=none`)).toContain('The URL contains an invalid cursor.');
});

test('the values of a chart lead to the events and rejections of their time', async () => {
  const { id } = await app.addWebhook({ name: 'Linked' });
  const minuteMs = Date.now();
  await addHistory(app.database, [{ webhookId: id, minuteMs, accepted: 3, rejected: 2, too_large: 1 }]);
  await storeEvents(app.database, id, 3, minuteMs);
  const newestRow = (page: string) => page.split('id="traffic-values"')[1]!.split('<tbody>')[1]!.split('</tr>')[0]!;
  const row = newestRow(await get(`/webhooks/${id}`));
  const [events, rejections] = [...row.matchAll(/href="([^"]*)"/g)].map(([, href]) => href!.replaceAll('&amp;', '&'));
  const { searchParams } = new URL(events!, app.url);
  const hourMs = minuteMs - (minuteMs % 3_600_000);
  expect(Object.fromEntries(searchParams)).toEqual({
    webhook_id: id,
    from: new Date(hourMs).toISOString(),
    to: new Date(hourMs + 3_600_000).toISOString(),
  });
  expect(rejections).toBe(`/rejections?${searchParams}`);
  expect((await get(events!)).match(/id="go-/g)).toHaveLength(3);
});

test('outages, changes and deploys are drawn in the charts and listed below them, the last two for administrators', async () => {
  const { id } = await app.addWebhook({ name: 'Marked' });
  await storeEvents(app.database, id, 1);
  const [began_at, ended_at] = [9_000, 5_000].map((agoMs) => new Date(Date.now() - agoMs).toISOString()) as [
    string,
    string,
  ];
  await addOutages(app.database, [{ id: randomUUID(), machine: 'm', began_at, ended_at, refused: 7, spooled: 0 }]);
  const administrator = await addPerson(app, 'administrator');
  await administrator.api('PATCH', `/api/v1/webhooks/${id}`, { description: 'changed' });
  // A start of the same build is not a deploy.
  for (const name of ['1.0.0 (b1fad92c2f04)', '1.0.0 (b1fad92c2f04)', '1.1.0 (0123456789ab)'])
    await recordBuild(app.database, name);
  const listOf = (page: string) =>
    page
      .split('id="traffic-changes"')[1]!
      .split('</details>')[0]!
      .replace(/<[^>]*>/g, '');
  const page = await administrator.page(`/webhooks/${id}`);
  expect(page).toMatch(/<line class="mark"[^>]*><title>.+ changed Marked, /);
  expect(listOf(page)).toMatch(
    /4 changes and 1 outage in this time.*changed Marked.*Deploy of 1\.1\.0 \(0123456789ab\).*outage of the database, 7 requests refused/s,
  );
  for (const path of ['/', `/webhooks/${id}`])
    expect((await administrator.page(path)).match(/<title>Deploy of [^<]*/g)).toEqual([
      expect.stringMatching(/<title>Deploy of 1\.1\.0 \(0123456789ab\), \d{4}-\d\d-\d\d \d\d:\d\d/),
      expect.stringContaining('Deploy of 1.0.0 (b1fad92c2f04), '),
    ]);
  const theirs = await get(`/webhooks/${id}`);
  expect(theirs).not.toContain('<line class="mark"');
  expect(listOf(theirs)).toMatch(/1 outage in this time/);
});
