/** Filters that take too long are suspended. */
import { expect, test } from 'vitest';
import { type Reached, schemaChecks } from '../../../server/operate/doctor/schema.ts';
import { agentsOf, send, startAgentApp, subscribed, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startAgentApp({ FILTER_TIMEOUT_MS: '500' }));
const operator = shared(() => addPerson(app, 'operator'));

const eventIds = (deliveries: readonly { event: { id: string } }[]) => deliveries.map(({ event }) => event.id);

async function agentWith(filter: string): Promise<{ webhook: TestWebhook; agent: TestAgent }> {
  const { webhook, agent } = await subscribed(app);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter }));
  return { webhook, agent };
}

/** Takes exponential time on SLOW. */
const HOSTILE = 'body.text.matches("^(a+)+$")';
const SLOW = JSON.stringify({ text: `${'a'.repeat(60)}b` });
const stateOf = async ({ id }: TestAgent) => {
  const { body } = await operator.api('GET', `/api/v1/agents/activity?agent_ids=${id}`);
  return body.items[0].filters[0];
};
/** Moves the slow events of a filter back in time. */
const letSlowPass = (agent: TestAgent, seconds: number) =>
  app.sql(
    'update subscriptions set filter_slow_at = filter_slow_at - make_interval(secs => $2) where agent_id = $1',
    agent.id,
    seconds,
  );
/** Sends and claims slow events until the filter is suspended. Returns how many. */
const suspend = async (webhook: TestWebhook, agent: TestAgent): Promise<number> => {
  for (let events = 1; ; events++) {
    const sent = await send(webhook, SLOW);
    expect(eventIds(await agent.claim())).toEqual([sent]);
    await until(async () => (await stateOf(agent)).failures === events);
    if ((await stateOf(agent)).suspended_until !== null) return events;
  }
};

test('a filter that takes too long on three events is suspended, visibly, and judges again when it is saved', async () => {
  const { webhook, agent } = await agentWith(HOSTILE);
  expect(await suspend(webhook, agent)).toBe(3);
  const excluded = '{"text":"b"}';
  const sent = [await send(webhook, excluded), await send(webhook, SLOW)];
  expect(eventIds(await agent.claim())).toEqual(sent);
  await until(async () => (await stateOf(agent)).failures === 5);
  expect(await stateOf(agent)).toMatchObject({
    reason: 'it is suspended: it took too long on other events',
    suspended_until: expect.stringMatching(/Z$/),
    problem: null,
  });
  const { items } = (await operator.api('GET', `/api/v1/issues?kind=filter&subject_id=${agent.id}`)).body;
  expect(items).toMatchObject([{ count: 1, state: 'open' }]);
  const found = await schemaChecks.filters({ database: app.database } as Reached);
  expect(JSON.stringify(found)).toMatch(/ is suspended until [^"]*Z \(it took too long/);
  const logged = app.logLines.filter((line) => line.includes('filter_suspended') && line.includes(agent.id));
  expect(logged).toHaveLength(1);

  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: HOSTILE }));
  expect((await stateOf(agent)).suspended_until).toBeNull();
  await send(webhook, excluded);
  expect(await agent.claim()).toEqual([]);
});

test('a suspended filter judges again after ten minutes, and one more slow event suspends it again, unless it comes an hour later', async () => {
  const { webhook, agent } = await agentWith(HOSTILE);
  await suspend(webhook, agent);
  const judges = async () => {
    const sent = await send(webhook, '{"text":"b"}');
    return !eventIds(await agent.claim()).includes(sent);
  };
  await letSlowPass(agent, 300);
  expect(await judges()).toBe(false);
  await letSlowPass(agent, 305);
  expect([await judges(), (await stateOf(agent)).suspended_until]).toEqual([true, null]);
  await send(webhook, SLOW);
  await agent.claim();
  await until(async () => (await stateOf(agent)).suspended_until !== null);
  await letSlowPass(agent, 3_700);
  await send(webhook, SLOW);
  await agent.claim();
  await until(async () => (await stateOf(agent)).reason.startsWith('it took longer'));
  expect([await judges(), (await stateOf(agent)).suspended_until]).toEqual([true, null]);
});

test('a filter is suspended also for the deliveries that wait after the end of its subscription', async () => {
  const { webhook, agent } = await agentWith(HOSTILE);
  const sent: string[] = [];
  for (const body of [SLOW, SLOW, SLOW, SLOW, '{"text":"b"}']) sent.push(await send(webhook, body));
  made(await agentsOf(app).update(agent.id, { webhook_ids: [] }));
  for (let slow = 1; slow <= 3; slow++) {
    expect(eventIds(await agent.claim({ max: 1 }))).toEqual([sent[slow - 1]]);
    await until(async () => {
      const [row] = await app.sql<{ slow: number }>(
        'select filter_slow as slow from replay_targets where agent_id = $1',
        agent.id,
      );
      return row?.slow === slow;
    });
  }
  expect(eventIds(await agent.claim())).toEqual(sent.slice(3));
});
