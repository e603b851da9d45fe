/** The numbers before a replay of many events, for each agent. */
import { beforeAll, describe, expect, test } from 'vitest';
import { EventSearch } from '../../../../server/manage/api/events/search.ts';
import { eventFilterOf } from '../../../../server/model/event-filter.ts';
import { addAgent, agentsOf, send, startAgentApp } from '../../../helpers/agents.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { made } from '../../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
const orders = shared(() => app.addWebhook());
const others = shared(() => app.addWebhook());
const all = shared(() => addAgent(app, [orders, others]));
const picky = shared(() => addAgent(app, [orders]));
beforeAll(async () => {
  made(await agentsOf(app).subscribe(picky.id, orders.id, { filter: 'body.n > 1' }));
  for (const n of [1, 2, 3]) await send(orders, JSON.stringify({ n }));
  await send(others);
});

async function preview(input: object = {}) {
  const { status, body } = await operator.api('POST', '/api/v1/events/replay', { ...input, preview: true });
  expect(status).toBe(200);
  const agents = Object.fromEntries(
    body.agents.map(({ agent_id, name: _, ...rest }: { agent_id: string; name: string }) => [agent_id, rest]),
  );
  return { ...body, agents };
}

describe('a preview', () => {
  test('answers what subscriptions let through and which agents have filters, and creates no job', async () => {
    expect(await preview()).toEqual({
      events: 4,
      exact: true,
      agents: {
        [all.id]: { deliveries: 4, filtered: false, beyond: 0 },
        [picky.id]: { deliveries: 3, filtered: true, beyond: 0 },
      },
    });
    expect(await app.sql('select from jobs')).toEqual([]);
  });

  test('counts webhooks without a subscription of a named agent as beyond', async () => {
    expect((await preview({ agent_ids: [picky.id] })).agents).toEqual({
      [picky.id]: { deliveries: 3, filtered: true, beyond: 1 },
    });
  });

  test('follows the filters of the list', async () => {
    expect(await preview({ q: '"n":3' })).toMatchObject({
      events: 1,
      agents: { [picky.id]: { deliveries: 1, beyond: 0 } },
    });
  });
});

test.each([
  [4, true],
  [3, false],
])('a count up to %i of 4 events is exact: %s', async (limit, exact) => {
  const { filter, span } = eventFilterOf({}, null, null);
  const counted = await new EventSearch(app.database).tally({ filter, span, limit });
  expect(counted).toEqual({ counts: expect.any(Map), total: 4, exact });
});
