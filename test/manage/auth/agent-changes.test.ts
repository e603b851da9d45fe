/** Rotated and revoked agents at another process, rotations with an overlap, and what logs contain of tokens. */
import { beforeEach, describe, expect, test } from 'vitest';
import {
  addAgent,
  agentsOf,
  request,
  send,
  signIn,
  startAgentApp,
  startSecondApp,
  TestAgent,
} from '../../helpers/agents.ts';
import { addPerson, leaksIn } from '../../helpers/people.ts';
import { ofEach, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));
/** A process without relayed changes: it has to check by itself. */
const deaf = shared(() => startSecondApp(app, { listens: false }));

const statusAt = async ({ url }: { url: string }, token: string) =>
  (await request(`${url}/api/v1/agent/me`, token)).status;

describe.each<[string, (id: string) => Promise<unknown>]>([
  ['rotated', (id) => agentsOf(app).rotate(id)],
  ['revoked', (id) => agentsOf(app).revoke(id)],
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
    await app.sql(`update deliveries set available_at = now() where id = $1`, held.id);
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
  const { credential: rotated } = made(await agentsOf(app).rotate(agent.id));
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

describe('a rotation with an overlap', () => {
  const operator = shared(() => addPerson(app, 'operator'));
  const webhook = ofEach(() => app.addWebhook());
  /** With its first credential, and a session of that. */
  const agent = ofEach(() => addAgent(app, [webhook]));

  beforeEach(async () => {
    // Both processes know the agent before the rotation.
    expect(await statusesOf(agent)).toEqual(VALID);
  });

  const VALID = [200, 200, 200, 200];
  const REFUSED = [401, 401, 401, 401];

  /** Statuses of the credential and the session, at each process. */
  async function statusesOf({ credential, token }: { credential: string; token: string }): Promise<number[]> {
    const statuses = [];
    for (const { url } of [app, second])
      for (const text of [credential, token]) statuses.push((await request(`${url}/api/v1/agent/me`, text)).status);
    return statuses;
  }

  /** The agent with its new credential, and a session of that. */
  async function rotate(overlap_seconds?: number) {
    const { status, body } = await operator.api('POST', `/api/v1/agents/${agent.id}/rotate`, { overlap_seconds });
    expect(status).toBe(200);
    const next = new TestAgent(app.url, body, await signIn(app, body.credential));
    return { next, until: body.previous_credential_expires_at as string | null };
  }

  /** Ends the overlap. The name is set, as the change is announced then. */
  const endOverlap = () =>
    app.sql(`update agents set previous_expires_at = now() - interval '1 ms', name = name where id = $1`, agent.id);

  const shown = async () => (await operator.api('GET', `/api/v1/agents/${agent.id}`)).body;

  async function usedAt(): Promise<string | null> {
    const { body } = await operator.api('GET', `/api/v1/agents/activity?agent_ids=${agent.id}`);
    return body.items[0].previous_credential_used_at;
  }

  test('both credentials and their sessions are valid until it ends', async () => {
    const { next, until: end } = await rotate(600);
    expect((Date.parse(end!) - Date.now()) / 1000).toBeCloseTo(600, -2);
    expect((await shown()).previous_credential_expires_at).toBe(end);
    expect([await statusesOf(agent), await statusesOf(next)]).toEqual([VALID, VALID]);
    // A session that the previous credential opens ends with it.
    const late = { ...agent, token: await signIn(second, agent.credential) };
    expect(await statusesOf(late)).toEqual(VALID);
    await endOverlap();
    await until(async () => (await statusesOf(agent)).every((status) => status === 401));
    expect([await statusesOf(late), await statusesOf(next)]).toEqual([REFUSED, VALID]);
    expect((await shown()).previous_credential_expires_at).toBeNull();
  });

  test.each([
    ['a second rotation with an overlap', () => rotate(600), VALID],
    ['a second rotation without an overlap', () => rotate(), REFUSED],
    ['a revocation', () => operator.api('DELETE', `/api/v1/agents/${agent.id}`), REFUSED],
  ])('%s ends the first previous credential', async (_what, change, ofSecond) => {
    const { next } = await rotate(600);
    await change();
    expect([await statusesOf(agent), await statusesOf(next)]).toEqual([REFUSED, ofSecond]);
  });

  test('a rotation by a release without overlaps ends the previous credential', async () => {
    const { next } = await rotate(600);
    await app.sql(
      `update agents set lookup_id = 'AAAAAAAAAAAA', secret_hash = sha256('x'), generation = generation + 1, updated_at = now()
           where id = $1`,
      agent.id,
    );
    await until(async () => (await statusesOf(next)).every((status) => status === 401));
    expect([await statusesOf(agent), (await shown()).previous_credential_expires_at]).toEqual([REFUSED, null]);
  });

  test('the secret part of a previous credential is compared', async () => {
    await rotate(600);
    await app.sql(`update agents set previous_secret_hash = sha256('another') where id = $1`, agent.id);
    expect(await statusesOf(agent)).toEqual([401, 200, 401, 200]);
  });

  test('the use of the previous credential and of its sessions is shown', async () => {
    const { next } = await rotate(600);
    await request(`${app.url}/api/v1/agent/me`, next.credential);
    expect(await usedAt()).toBeNull();
    await request(`${app.url}/api/v1/agent/me`, agent.token);
    const first = await until(usedAt);
    expect(Date.now() - Date.parse(first)).toBeLessThan(60_000);
    await app.sql('update agents set previous_used_at = null');
    // Another process has not written it in this minute.
    await request(`${second.url}/api/v1/agent/me`, agent.credential);
    await until(usedAt);
  });

  test('a waiting claim continues after a rotation with an overlap', async () => {
    const claim = agent.claimOne({ wait_seconds: 30 });
    await until(async () => (await app.metric('weir_claims_waiting')) === 1);
    await rotate(600);
    const id = await send(webhook);
    expect((await claim).event.id).toBe(id);
  });

  test('a claim that waits with a previous credential gets nothing after the next rotation', async () => {
    await rotate(600);
    const claim = agent.claim({ wait_seconds: 3 });
    await until(async () => (await app.metric('weir_claims_waiting')) === 1);
    const { next } = await rotate(600);
    const id = await send(webhook);
    expect(await claim).toEqual([]);
    expect((await next.claimOne()).event.id).toBe(id);
  });

  test.each([
    [-1, 422],
    [0, 200],
    [604_800, 200],
    [604_801, 422],
    [1.5, 422],
  ])('an overlap of %s seconds: %i', async (overlap_seconds, status) => {
    expect((await operator.api('POST', `/api/v1/agents/${agent.id}/rotate`, { overlap_seconds })).status).toBe(status);
  });
});
