/** The form of a test request: which event and which type. */
import { expect, test } from 'vitest';
import { addAgent } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

const get = (path: string) => operator.page(path);

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
