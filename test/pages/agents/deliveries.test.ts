/** The tables of deliveries on the page of an agent. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, startAgentApp, storeEvents, type TestAgent } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
let agent: TestAgent;
let page: string;
let load: (id: string) => Promise<Response>;
beforeAll(async () => {
  const webhook = await app.addWebhook();
  agent = await addAgent(app, [webhook]);
  const nowMs = Date.now();
  for (const secondsAgo of [30, 20, 10]) await storeEvents(app.database, webhook.id, 1, nowMs - secondsAgo * 1_000);
  const claimed = await agent.claim();
  for (const [index, { id }] of claimed.entries())
    await app.database.query({
      text: `update deliveries set state = 'dead', finished_at = now() - make_interval(mins => $2) where id = $1`,
      values: [id, [5, 1, 3][index]],
    });
  const { cookie } = await addPerson(app, 'viewer');
  load = (id) => fetch(`${app.url}/agents/${id}`, { headers: { cookie } });
  page = await (await load(agent.id)).text();
});

test('dead letters show when their events were received, by which they are ordered, and when they ended', () => {
  const table = page.split('id="s-dead"')[1]!.split('</table>')[0]!;
  const times = (label: string) =>
    [...table.matchAll(new RegExp(`data-label="${label}"><time datetime="([^"]+)"`, 'g'))].map(([, at]) => at!);
  const received = times('Received');
  expect(received).toHaveLength(3);
  expect(received).toEqual([...received].sort().reverse());
  expect(times('Finished')).toHaveLength(3);
});

test('an id in capital letters is that of the agent', async () => {
  for (const id of [agent.id, agent.id.toUpperCase()])
    expect(await (await load(id)).text()).toMatch(/seen &lt; 1 min ago from 127\.0\.0\.1/);
});
