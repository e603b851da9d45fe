/** The list of deliveries: rows are chosen by boxes, which work without JavaScript, and replayed or dismissed. */
import { expect, test } from 'vitest';
import { addAgent, send } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startPagesApp({ DELIVERY_MAX_ATTEMPTS: 1 }));
const operator = shared(() => addPerson(app, 'operator'));
const viewer = shared(() => addPerson(app, 'viewer'));

const get = (path: string, person = operator) => person.page(path);

/** The page after a form of the list. */
async function post(path: string, fields: [string, string][]): Promise<string> {
  const { status, location } = await operator.submit(path, [['chosen', 'rows'], ...fields]);
  expect(status).toBe(303);
  return get(location!);
}

const boxes = (page: string) =>
  [...page.matchAll(/<input type="checkbox" name="id" value="([^"]+)"/g)].map(([, id]) => id!);

test('chosen rows are dismissed and replayed, others are not, and the list stays filtered', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  for (const reason of ['a', 'b', 'c']) {
    await send(webhook);
    await agent.nack([(await agent.claimOne()).receipt], { reason });
  }
  await send(webhook);
  const list = `/deliveries?webhook_id=${webhook.id}`;
  const page = await get(list);
  // The pending one has no box.
  const [one, two, three, ...more] = boxes(page) as [string, string, string];
  expect(more).toEqual([]);
  expect(page).toContain('formaction="/deliveries/dismiss" name="confirmed" value="yes">Dismiss now</button>');
  expect(boxes(await get(list, viewer))).toEqual([]);

  const scope: [string, string] = ['webhook_id', webhook.id];
  const dismissed = await post('/deliveries/dismiss', [scope, ['confirmed', 'yes'], ['id', one], ['id', two]]);
  expect(dismissed).toContain('2 dead letters are dismissed.');
  const replayed = await post('/deliveries/replay', [scope, ['id', two], ['id', three]]);
  expect(replayed).toContain('2 deliveries are pending again.');
  expect(boxes(replayed)).toEqual([one]);
});

test('without a chosen row nothing changes', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await agent.nack([(await agent.claimOne()).receipt], {});
  for (const action of ['replay', 'dismiss']) {
    const after = await post(`/deliveries/${action}`, [
      ['webhook_id', webhook.id],
      ['state', 'dead'],
    ]);
    expect(after).toContain('No delivery was chosen.');
    expect(boxes(after)).toHaveLength(1);
  }
});

test('a time range hides what is of all times: groups of reasons', async () => {
  expect(await get('/deliveries?state=dead')).toContain('Dead letters by reason');
  const page = await get('/deliveries?state=dead&from=2026-01-01T00:00:00');
  expect(page).not.toContain('Dead letters by reason');
  expect(page).toContain('name="from" type="datetime-local" value="2026-01-01T00:00:00"');
});
