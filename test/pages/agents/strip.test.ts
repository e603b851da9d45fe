/** The health strip of an agent: how its attempts ended, counted by the process that it uses and by the primary. */
import { expect, test } from 'vitest';
import { quartersSince } from '../../../server/model/history.ts';
import { addAgentHistory, countFailed, deleteOldAgentHistory } from '../../../server/store/queries/agents/history.ts';
import { addAgent, letPass, send, startAgentApp } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { someKey } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const QUARTER_MS = 900_000;
const app = shared(() => startAgentApp({ SECRETS_KEY: someKey }));
const viewer = shared(() => addPerson(app, 'viewer'));

const quartersOf = async (agentId: string) => {
  const path = `/api/v1/agents/activity?agent_ids=${agentId}&quarters=true`;
  const [{ quarters }] = (await viewer.api('GET', path)).body.items;
  return quarters;
};
const sumOf = async (agentId: string) => {
  const quarters: { acknowledged: number; failed: number }[] = await quartersOf(agentId);
  const sum = (name: 'acknowledged' | 'failed') => quarters.reduce((total, quarter) => total + quarter[name], 0);
  return { acknowledged: sum('acknowledged'), failed: sum('failed') };
};

test('a process counts acknowledged and rejected attempts and expired leases, and not released ones', async () => {
  const own = await startTestApp({ SECRETS_KEY: someKey }, app);
  const webhook = await own.addWebhook();
  const agent = await addAgent(own, [webhook]);
  for (let i = 0; i < 6; i++) await send(webhook);
  const receiptsOf = (deliveries: { receipt: string }[]) => deliveries.map(({ receipt }) => receipt);
  // A process that has claimed looks for nothing older.
  const receipts = receiptsOf(await agent.at(app).claim());
  await agent.ack(receipts.slice(0, 3));
  await agent.nack(receipts.slice(3, 4), { delay_seconds: 7_200 });
  await agent.nack(receipts.slice(4, 5), { release: true });
  await letPass(own.database, 3_601);
  const again = receiptsOf(await agent.claim());
  expect(again.length).toBe(2);
  await agent.ack(again);
  await own.stop();
  expect(await sumOf(agent.id)).toEqual({ acknowledged: 5, failed: 2 });
});

test('the primary counts the attempts whose last lease ended', async () => {
  const agent = await addAgent(app);
  await countFailed(app.database, [agent.id, agent.id], Date.now());
  await countFailed(app.database, [agent.id], Date.now());
  expect(await sumOf(agent.id)).toEqual({ acknowledged: 0, failed: 3 });
});

test('the list of agents shows them, and leads to the deliveries of the time', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await agent.claim();
  // When it was seen is written beside the claim, with others that are seen within a moment.
  const seen = async () => (await viewer.api('GET', `/api/v1/agents/activity?agent_ids=${agent.id}`)).body.items[0];
  await until(async () => (await seen()).last_seen_at !== null);
  const atMs = quartersSince(Date.now()) + 40 * QUARTER_MS;
  await addAgentHistory(app.database, [{ agentId: agent.id, atMs, acknowledged: 12, failed: 3, ended: 12 }]);
  const [from, to] = [atMs, atMs + QUARTER_MS].map((ms) => encodeURIComponent(new Date(ms).toISOString()));
  const link = `<a href="/deliveries?agent_id=${agent.id}&amp;from=${from}&amp;to=${to}" tabindex="-1"><title>12 acknowledged, 3 failed, `;
  const page = await viewer.page('/agents');
  expect(page).toContain(link);
  expect(page).toContain('Last 24 hours: 12 acknowledged, 3 failed, failures in 1 of 96 quarter hours');
});

test('the list of agents marks an oldest delivery that has waited for more than five minutes', async () => {
  const webhook = await app.addWebhook();
  const [late, other] = [await addAgent(app, [webhook]), await addAgent(app, [webhook])];
  await send(webhook);
  for (const agent of [late, other]) await agent.nack([(await agent.claimOne()).receipt], { delay_seconds: 0 });
  await app.sql(`update deliveries set available_at = now() - interval '301 seconds' where agent_id = $1`, late.id);
  const rows = (await viewer.page('/agents')).split('<tr>');
  const isMarked = (agent: { id: string }) =>
    rows.find((row) => row.includes(`href="/agents/${agent.id}"`))!.includes('class="late"');
  expect([isMarked(late), isMarked(other)]).toEqual([true, false]);
});

test('quarters of an hour are kept for two days', async () => {
  const agent = await addAgent(app);
  const hoursAgo = (hours: number) => ({
    agentId: agent.id,
    atMs: Date.now() - hours * 3_600_000,
    acknowledged: 1,
    failed: 0,
    ended: 1,
  });
  await addAgentHistory(app.database, [hoursAgo(47), hoursAgo(49)]);
  await deleteOldAgentHistory(app.database);
  const kept = await app.sql<{ hours: number }>(
    `select round(extract(epoch from now() - at) / 3600)::int as hours from agent_history where agent_id = $1`,
    agent.id,
  );
  expect(kept.map(({ hours }) => hours)).toEqual([47]);
});
