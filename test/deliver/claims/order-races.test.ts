/** Order by key under concurrency: whatever happens to the consumers, each key is delivered one event at a time, in the order of its commits. */
import { expect, test } from 'vitest';
import { agentsOf, send, startAgentApp, startSecondApp, subscribed } from '../../helpers/agents.ts';
import { deliverInOrder } from '../../helpers/key-order.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1_000 }));
const second = shared(() => startSecondApp(app));

test('8 consumers with nacks, releases, lost claims, expired leases and a replay get the events of each key in order', async () => {
  const { webhook, agent } = await subscribed(app);
  const operator = await addPerson(app, 'operator');
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/key' }));
  const ordered = { webhook, places: [agent, agent.at(second)], database: app.database };
  // Halfway: what is done is delivered again, beside what is new.
  const run = await deliverInOrder(ordered, async (expectAgain) => {
    const { body } = await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}&state=done&limit=100`);
    const items: { id: string; event_id: string }[] = body.items;
    const delivery_ids = items.map(({ id }) => id);
    expectAgain(items.map(({ event_id }) => event_id));
    const replayed = await operator.api('POST', '/api/v1/deliveries/replay', { delivery_ids });
    expect(replayed.body.replayed).toBe(delivery_ids.length);
  });
  expect(run).toEqual({ faults: [], left: [] });
});

test('events of one key that are sent at once are each delivered once, one at a time', async () => {
  const { webhook, agent } = await subscribed(app);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/key' }));
  const there = { ...webhook, url: `${second.url}${webhook.path}` };
  const sent = Promise.all(Array.from({ length: 200 }, (_, i) => send(i % 2 === 0 ? webhook : there, '{"key":1}')));
  const got: string[] = [];
  let working = 0;
  await Promise.all(
    [agent, agent.at(second), agent, agent.at(second)].map(async (place) => {
      while (got.length < 200) {
        const deliveries = await place.claim({ max: 10, wait_seconds: 1 });
        expect(deliveries.length).toBeLessThanOrEqual(1);
        for (const { event, receipt } of deliveries) {
          expect(++working).toBe(1);
          got.push(event.id);
          working--;
          await place.ack([receipt]);
        }
      }
    }),
  );
  expect(got.toSorted()).toEqual((await sent).toSorted());
});
