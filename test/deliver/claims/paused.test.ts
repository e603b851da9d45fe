/** `paused` of an agent: its claims wait as if there were nothing, and what it has under lease goes on. */
import { expect, test } from 'vitest';
import { addAgent, letPass, request, send, startAgentApp, startSecondApp } from '../../helpers/agents.ts';
import { weirJson } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));

test('a paused agent gets nothing at any process, settles what it has, and continues once it is resumed', async () => {
  const operator = await addPerson(app, 'operator');
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const path = `/api/v1/agents/${agent.id}`;
  await send(webhook);
  const held = await agent.claimOne();
  await send(webhook);

  const waits = agent.at(second).claim({ wait_seconds: 1 });
  expect(await waits).toHaveLength(1);
  await send(webhook);
  expect((await operator.api('PATCH', path, { paused: true })).body).toMatchObject({
    paused: true,
    paused_at: expect.stringMatching(/Z$/),
  });
  expect(await agent.claim()).toEqual([]);
  expect(await agent.at(second).claim({ wait_seconds: 1 })).toEqual([]);
  expect((await agent.extend([held.receipt], 60)).done).toEqual([held.receipt]);
  // The settlement of a claim is committed although it finds nothing.
  const settled = await agent.post('claim', { max: 1, lease_seconds: 60, ack: [held.receipt] });
  expect(settled.body).toEqual({ deliveries: [], settled: { done: [held.receipt], gone: [] } });
  expect((await request(`${app.url}/api/v1/agent/me`, agent.token)).body).toMatchObject({ pending: 1, paused: true });
  const activity = await operator.api('GET', `/api/v1/agents/activity?agent_ids=${agent.id}`);
  expect(activity.body.items[0]).toMatchObject({ paused: true, waiting_since: expect.any(String) });

  const resumed = agent.claim({ wait_seconds: 20 });
  expect(await weirJson(app, 'agent', 'resume', agent.id)).toMatchObject({ paused: false, paused_at: null });
  expect(await resumed).toHaveLength(1);
  expect(await weirJson(app, 'agent', 'pause', agent.id)).toMatchObject({ paused: true });
});

test('a paused agent does not have the condition pending, and has the condition paused after a day', async () => {
  const operator = await addPerson(app, 'operator');
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const kinds = async () => {
    const { items } = (await operator.api('GET', '/api/v1/issues?state=open')).body;
    return items
      .filter((one: { subject: { id: string } }) => one.subject.id === agent.id)
      .map((one: { kind: string }) => one.kind);
  };
  await send(webhook);
  await letPass(app.database, 3_600);
  expect(await kinds()).toEqual(['pending']);
  await operator.api('PATCH', `/api/v1/agents/${agent.id}`, { paused: true });
  expect(await kinds()).toEqual([]);
  await app.database.query({
    text: `update agents set paused_at = now() - interval '25 hours' where id = $1`,
    values: [agent.id],
  });
  expect(await kinds()).toEqual(['paused']);
});
