/** The pages of webhooks: the form of a test request, a rotation that is followed by a meter, and the numbers of requests. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { recordBuild } from '../../../server/store/audit/record.ts';
import { addOutages } from '../../../server/store/queries/alerts/issues.ts';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { addAgent, storeEvents } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

const get = (path: string, person = operator) => person.page(path);

const send = (id: string, fields: Record<string, string>) => operator.submit(`/webhooks/${id}/test`, fields);

async function addWebhook(scheme: string) {
  const input = { name: `tested by ${scheme}`, signature_scheme: scheme, secret: 'a secret of the sender' };
  return (await operator.api('POST', '/api/v1/webhooks', input)).body;
}

const newestOf = async (id: string) => (await operator.api('GET', `/api/v1/events?webhook_id=${id}`)).body.items[0];
const options = (page: string) =>
  [...page.matchAll(/<option value="([^"]*)"[^>]*>([^<]*)</g)].map(([, , label]) => label);

test('it offers the example of the sender, whose type can be replaced', async () => {
  const webhook = await addWebhook('stripe');
  const agent = await addAgent(app, [webhook]);
  const page = await get(`/webhooks/${webhook.id}/test`);
  expect(options(page)).toEqual(['A small JSON document', 'The example of Stripe']);
  expect(page).toContain('The subscribed agents get it: 1 agent.');

  const sent = await send(webhook.id, { event: 'example', type: 'invoice.voided' });
  expect(sent.text).toContain('The test request got a 202 response');
  const event = await newestOf(webhook.id);
  expect(event.event_type).toBe('invoice.voided');
  expect((await agent.claimOne()).event.body).toContain('"amount_paid":1000');
});

test('it sends the newest event of a type again', async () => {
  const webhook = await addWebhook('github');
  await send(webhook.id, { event: 'small', type: 'star' });
  const { id } = await newestOf(webhook.id);
  const page = await get(`/webhooks/${webhook.id}/test`);
  expect(options(page)).toContain('The newest star, of 1 event in 7 days');
  expect(page).toContain('No agent is subscribed to this webhook');
  await send(webhook.id, { event: id, type: '' });
  const again = await newestOf(webhook.id);
  expect([again.event_type, again.id === id]).toEqual(['star', false]);
  const { body } = await operator.api('GET', `/api/v1/webhooks/${webhook.id}/event-types`);
  expect(body).toMatchObject({ items: [{ event_type: 'star', events: 2, newest_id: again.id }], complete: true });
});

test('an event of another webhook is not sent', async () => {
  const [one, other] = [await app.addWebhook(), await app.addWebhook()];
  await send(one.id, {});
  const { id } = await newestOf(one.id);
  const refused = await send(other.id, { event: id });
  expect([refused.status, await newestOf(other.id)]).toEqual([422, undefined]);
  expect(refused.text).toContain('This event cannot be sent from here.');
});

test('a webhook that answers with a text of its own is tested, and its events are sent again', async () => {
  const webhook = await addWebhook('xero');
  expect((await send(webhook.id, { event: 'small', type: '' })).text).toContain('The test request got a 200 response');
  const event = await newestOf(webhook.id);
  const fields = { body: '{"again":1}', content_type: 'application/json', headers: '' };
  const again = await operator.submit(`/events/${event.id}/send`, fields);
  expect([again.status, again.location]).toEqual([
    303,
    expect.stringContaining(`/events/${(await newestOf(webhook.id)).id}`),
  ]);
  expect(await get(`/webhooks/${webhook.id}/settings`)).toContain(
    '&quot;status&quot;:200,&quot;content_type&quot;:&quot;text/plain&quot;,&quot;body&quot;:&quot;&quot;}</code> (default of the scheme)',
  );
});

test('the meter counts by secret, the old one is a condition while it is used before its end, and can be ended', async () => {
  const webhook = await app.addWebhook();
  const path = `/api/v1/webhooks/${webhook.id}`;
  const send = async (secret: string | null) => (await fetch(webhook.url, signedRequest({ secret }))).status;
  const page = async () => operator.page(`/webhooks/${webhook.id}/secret`);
  expect(await page()).not.toContain('with the old one');
  expect(await send(webhook.secret)).toBe(202);
  const accepted = async () => (await operator.api('GET', `/api/v1/history?webhook_id=${webhook.id}`)).body.points;
  await until(async () => (await accepted()).some((point: { accepted: number }) => point.accepted === 1));
  const { secret } = (await operator.api('POST', `${path}/rotate-secret`, { overlap_seconds: 86_400 })).body;
  // A request of before the rotation says nothing about which secret the sender has.
  expect(await page()).toContain('<b>0</b> with the new secret, <b>0</b> with the old one');
  expect([await send(webhook.secret), await send(webhook.secret), await send(secret)]).toEqual([202, 202, 202]);
  await until(async () => (await page()).includes('<b>1</b> with the new secret, <b>2</b> with the old one'));
  const kinds = async () =>
    (await operator.api('GET', '/api/v1/issues?state=open')).body.items.map(({ kind }: { kind: string }) => kind);
  expect(await kinds()).not.toContain('old_secret');
  await app.sql(
    `update webhook_secrets set expires_at = now() + interval '3 hours' where webhook_id = $1 and slot = 'previous'`,
    webhook.id,
  );
  await app.sql(
    `update webhook_secrets set created_at = now() - interval '21 hours' where webhook_id = $1 and slot = 'current'`,
    webhook.id,
  );
  expect(await kinds()).toContain('old_secret');

  expect((await operator.submit(`/webhooks/${webhook.id}/end-previous`, { confirmed: 'yes' })).status).toBe(303);
  expect([await send(webhook.secret), await send(secret)]).toEqual([403, 202]);
  expect(await kinds()).not.toContain('old_secret');
  expect((await operator.api('DELETE', `${path}/secrets/previous`)).body.code).toBe('secret_unknown');
});

const viewer = shared(() => addPerson(app, 'viewer'));

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
    expect(page).toMatch(new RegExp(`The parameter <code>${name}</code> of the URL is not valid\\. .+</p>`));
  expect(page).toContain(`<a href="/webhooks/${id}">Show all requests</a>`);
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
  expect((await get(events!)).match(/<tr>\s*<td class="clip"><a href="\/events\//g)).toHaveLength(3);
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
  const theirs = await get(`/webhooks/${id}`, viewer);
  expect(theirs).not.toContain('<line class="mark"');
  expect(listOf(theirs)).toMatch(/1 outage in this time/);
});
