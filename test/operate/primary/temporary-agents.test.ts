import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { MINUTE_MS } from '../../../server/base/time/durations.ts';
import { TEMPORARY_AGENT_SECONDS } from '../../../server/model/agents.ts';
import { figureReader } from '../../../server/operate/primary/families.ts';
import { expireTemporaryAgents, removeTemporaryAgents } from '../../../server/operate/primary/maintenance.ts';
import { addAgent, agentsOf, send, signIn, startAgentApp, TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));

const HOUR_MS = TEMPORARY_AGENT_SECONDS * 1000;
const notStopped = () => false;

async function addTemporary(webhook: TestWebhook): Promise<TestAgent> {
  const input = { name: randomUUID(), webhook_ids: [webhook.id], temporary: true };
  const agent = made(await agentsOf(app).add(input));
  return new TestAgent(app.url, agent, await signIn(app, agent.credential));
}

const show = (id: string) => operator.api('GET', `/api/v1/agents/${id}`);
const deliveriesOf = (id: string) => app.sql('select id from deliveries where agent_id = $1', id);
const rowOf = (id: string) => app.sql('select id from agents where id = $1', id);
const auditOf = async (id: string) =>
  (await app.sql<{ entry: object }>(`select entry from audit_log where target_id = $1 order by number`, id)).map(
    ({ entry }) => entry,
  );

test('a temporary agent gets the events that arrive after it was created', async () => {
  const webhook = await app.addWebhook();
  await send(webhook, '{"n":1}');
  const agent = await addTemporary(webhook);
  const later = await send(webhook, '{"n":2}');
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual([later]);
  expect((await show(agent.id)).body).toMatchObject({ temporary: true, revoked: false });
});

test('a revoked temporary agent disappears at once, and maintenance deletes it with its deliveries', async () => {
  const webhook = await app.addWebhook();
  const [agent, other] = [await addTemporary(webhook), await addAgent(app, [webhook])];
  await send(webhook, '{"n":1}');
  expect((await operator.api('DELETE', `/api/v1/agents/${agent.id}`)).status).toBe(204);
  expect((await show(agent.id)).status).toBe(404);
  const { items } = (await operator.api('GET', '/api/v1/agents?limit=200')).body;
  expect(items.map(({ id }: { id: string }) => id)).not.toContain(agent.id);
  expect(await auditOf(agent.id)).toMatchObject([
    { action: 'agent.create' },
    { action: 'agent.revoke', before: { temporary: true }, after: null },
  ]);

  // A transaction that began before the revocation may still add deliveries.
  await removeTemporaryAgents(app.database, Date.now(), notStopped);
  expect(await rowOf(agent.id)).toHaveLength(1);
  await removeTemporaryAgents(app.database, Date.now() + 2 * MINUTE_MS, notStopped);
  expect([await rowOf(agent.id), await deliveriesOf(agent.id)]).toEqual([[], []]);
  expect(await deliveriesOf(other.id)).toHaveLength(1);
});

test('a temporary agent expires an hour after its last request, with an audit entry; other agents never do', async () => {
  const webhook = await app.addWebhook();
  const [unseen, permanent] = [
    made(await agentsOf(app).add({ name: randomUUID(), webhook_ids: [webhook.id], temporary: true })),
    await addAgent(app, [webhook]),
  ];
  await send(webhook, '{"n":1}');
  const seen = await addTemporary(webhook);
  await until(
    async () => (await app.sql('select 1 from agents where id = $1 and last_seen_at is not null', seen.id)).length > 0,
  );
  await app.sql(`update agents set last_seen_at = now() + interval '30 minutes' where id = $1`, seen.id);

  await expireTemporaryAgents(app.database, Date.now() + HOUR_MS - MINUTE_MS);
  expect((await show(unseen.id)).status).toBe(200);
  await expireTemporaryAgents(app.database, Date.now() + HOUR_MS + MINUTE_MS);
  expect((await show(unseen.id)).status).toBe(404);
  expect((await show(seen.id)).status).toBe(200);
  expect((await show(permanent.id)).body).toMatchObject({ revoked: false, temporary: false });
  expect((await auditOf(unseen.id)).at(-1)).toMatchObject({
    action: 'agent.expire',
    actor: { kind: 'system' },
    before: { id: unseen.id, name: unseen.name },
    after: null,
  });

  await removeTemporaryAgents(app.database, Date.now() + HOUR_MS, notStopped);
  expect([await rowOf(unseen.id), await deliveriesOf(unseen.id)]).toEqual([[], []]);
  expect(await deliveriesOf(permanent.id)).toHaveLength(1);
});

test('the backlog of a temporary agent is neither an issue nor a metric', async () => {
  const webhook = await app.addWebhook();
  const [agent, other] = [await addTemporary(webhook), await addAgent(app, [webhook])];
  await send(webhook, '{"n":1}');
  await app.sql(`update deliveries set state = 'dead', finished_at = now() where webhook_id = $1`, webhook.id);
  const { items } = (await operator.api('GET', '/api/v1/issues')).body;
  const agents = items.map((issue: { subject: { id: string } }) => issue.subject.id);
  expect(agents).toContain(other.id);
  expect(agents).not.toContain(agent.id);
  const home = { number: 0, name: 'home', database: app.database, away: null, awaySinceMs: 0 };
  const figures = (await figureReader({ all: () => [home] })())!;
  for (const ids of [figures.cells[0]!.agents.map(({ agentId }) => agentId), figures.names.map(({ id }) => id)]) {
    expect(ids).toContain(other.id);
    expect(ids).not.toContain(agent.id);
  }
});
