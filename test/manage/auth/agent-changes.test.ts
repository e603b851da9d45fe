/** Rotated and revoked agents at another process, and what logs contain of tokens. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { Agents } from '../../../server/manage/api/agents/agent-changes.ts';
import { addAgent, agentsOf, request, send, signIn, startAgentApp, startSecondApp } from '../../helpers/agents.ts';
import { leaksIn } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));
/** A process without relayed changes: it has to check by itself. */
const deaf = shared(() => startSecondApp(app, { listens: false }));
let agents: Agents;

beforeAll(async () => {
  agents = agentsOf(app);
});

const statusAt = async ({ url }: { url: string }, token: string) =>
  (await request(`${url}/api/v1/agent/me`, token)).status;

describe.each<[string, (id: string) => Promise<unknown>]>([
  ['rotated', (id) => agents.rotate(id)],
  ['revoked', (id) => agents.revoke(id)],
])('an agent that was %s', (_what, change) => {
  test('has no session at a listening process as soon as the change is made', async () => {
    const agent = await addAgent(app);
    for (const place of [app, second]) expect(await statusAt(place, agent.token)).toBe(200);
    await change(agent.id);
    for (const place of [app, second]) {
      expect(await statusAt(place, agent.token)).toBe(401);
      expect(await statusAt(place, agent.credential)).toBe(401);
    }
  });

  test('has no session at a process without notifications within a second', async () => {
    const agent = await addAgent(app);
    expect(await statusAt(deaf, agent.token)).toBe(200);
    await change(agent.id);
    // Without invalidation a cached session would stay valid for minutes.
    await until(async () => (await statusAt(deaf, agent.token)) === 401);
    expect(await statusAt(deaf, agent.credential)).toBe(401);
  });

  test('receives nothing more by a waiting claim', async () => {
    const webhook = await app.addWebhook();
    const agent = await addAgent(app, [webhook]);
    await send(webhook);
    const held = await agent.claimOne();
    const waiting = agent.post('claim', { wait_seconds: 3 });
    await until(async () => (await app.metric('weir_claims_waiting')) === 1);
    await change(agent.id);
    await app.database.query({
      text: `update deliveries set available_at = now() where id = $1`,
      values: [held.id],
    });
    const { status, body } = await waiting;
    expect(status === 401 || body.deliveries.length === 0, JSON.stringify(body)).toBe(true);
  });
});

test('a new agent can authenticate at every process at once', async () => {
  const agent = await addAgent(app);
  for (const place of [app, second, deaf])
    expect(await statusAt(place, await signIn(place, agent.credential))).toBe(200);
});

test('no log line contains any part of a token, at level trace, for any error', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const { credential: rotated } = made(await agents.rotate(agent.id));
  const token = await signIn(app, rotated);
  const wrong = `wa_${'Zq7'.repeat(4)}_${'Kp9'.repeat(16)}x`;
  const tokens = [agent.credential, agent.token, rotated, token, wrong];
  const everywhere = async () => {
    for (const { url } of [app, second])
      for (const each of tokens) {
        await request(`${url}/api/v1/agent/me`, each);
        await request(`${url}/api/v1/agent/session`, each, {});
        await request(`${url}/api/v1/agent/session`, null, { credential: each });
        await request(`${url}/api/v1/agent/session`, null, { [each]: each });
        await request(`${url}/api/v1/agent/deliveries/claim`, each, { max: each }).catch(() => {});
        await request(`${url}/api/v1/agent/deliveries/ack`, each, { receipts: [each] }).catch(() => {});
      }
  };
  await everywhere();
  await app.cutOff();
  await everywhere();
  await app.restore();
  await until(async () => (await statusAt(app, token)) === 200);
  const lines = [...app.logLines, ...second.logLines, ...deaf.logLines];
  expect(lines.length).toBeGreaterThan(100);
  expect(leaksIn(lines, tokens)).toEqual([]);
});
