/** The page of a failed delivery shows the body of its event. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, send, startAgentApp, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
let webhook: TestWebhook;
let agent: TestAgent;
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await addPerson(app, 'viewer'));
  webhook = await app.addWebhook();
  agent = await addAgent(app, [webhook]);
});

test.each([
  ['that failed shows', 'nack' as const, { reason: 'no such order' }, true],
  ['that succeeded does not show', 'ack' as const, {}, false],
])('a delivery %s the body of its event', async (_what, verb, more, shows) => {
  await send(webhook, `{"order":"${verb}-4711"}`);
  const { id, receipt } = await agent.claimOne();
  expect((await agent.post(verb, { receipts: [receipt], ...more })).status).toBe(200);
  const page = await (await fetch(`${app.url}/deliveries/${id}?view=raw`, { headers: { cookie } })).text();
  expect(page.includes(`${verb}-4711`)).toBe(shows);
  expect(page).not.toContain('view=diff');
});
