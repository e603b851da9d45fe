/** The numbers before a replay of many events: for each agent, exact or labelled as estimated. */
import { beforeAll, describe, expect, test } from 'vitest';
import { EventSearch } from '../../../../server/manage/api/events/search.ts';
import { estimateEvents } from '../../../../server/store/queries/replays/preview.ts';
import { addAgent, agentsOf, send, startAgentApp, storeEvents, type TestAgent } from '../../../helpers/agents.ts';
import type { TestWebhook } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { made } from '../../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
let orders: TestWebhook;
let others: TestWebhook;
let all: TestAgent;
let picky: TestAgent;

beforeAll(async () => {
  [orders, others] = [await app.addWebhook(), await app.addWebhook()];
  [all, picky] = [await addAgent(app, [orders, others]), await addAgent(app, [orders])];
  made(await agentsOf(app).setFilter(picky.id, orders.id, 'body.n > 1'));
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
  test('answers what subscriptions and filters let through, and creates no job', async () => {
    expect(await preview()).toEqual({
      events: 4,
      exact: true,
      agents: {
        [all.id]: { deliveries: 4, beyond: 0, exact: true },
        [picky.id]: { deliveries: 2, beyond: 1, exact: true },
      },
    });
    expect(await app.database.query({ text: 'select from jobs' })).toEqual([]);
  });

  test('counts webhooks without a subscription of a named agent as beyond', async () => {
    expect((await preview({ agent_ids: [picky.id] })).agents).toEqual({
      [picky.id]: { deliveries: 2, beyond: 2, exact: true },
    });
  });

  test('follows the filters of the list', async () => {
    expect(await preview({ q: '"n":3' })).toMatchObject({
      events: 1,
      agents: { [picky.id]: { deliveries: 1, beyond: 0 } },
    });
  });
});

describe('the number of events', () => {
  const filter = {
    agentId: null,
    webhookId: null,
    deliveryState: null,
    type: null,
    contentType: null,
    source: null,
    header: null,
    text: null,
  };
  const tally = async (limit: number) => {
    const span = { from: null, to: null, before: null };
    return (await new EventSearch(app.database).tally({ filter, span, limit }))!;
  };
  beforeAll(async () => {
    await storeEvents(app.database, others.id, 30, Date.now() - 60_000);
  });

  test('is complete at the limit', async () => {
    expect(await tally(34)).toEqual({
      countedFrom: null,
      counts: new Map([
        [orders.id, 3],
        [others.id, 31],
      ]),
    });
  });

  test('above the limit says from when on it was counted', async () => {
    expect(Date.parse((await tally(33)).countedFrom!)).toBeGreaterThan(Date.now() - 120_000);
  });

  test('is estimated by the statistics of the planner', async () => {
    await app.database.query({ text: 'analyze events' });
    const estimated = (from: string | null) => estimateEvents(app.database, null, { from, to: null });
    expect(await estimated(null)).toBeGreaterThan(20);
    expect(await estimated('2100-01-01T00:00:00Z')).toBe(1);
  });
});
