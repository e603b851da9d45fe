import { afterAll, beforeAll, expect, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../../../helpers/agents.ts';
import type { TestApp } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startAgentApp();
});
afterAll(() => app.stop());

test('the conditions are listed with sentence, fix and page, and under the earlier path too', async () => {
  const viewer = await addPerson(app, 'viewer');
  const webhook = await app.addWebhook();
  const { id } = await addAgent(app, [webhook]);
  await send(webhook);
  await app.database.query({
    text: `update deliveries set state = 'dead', finished_at = now(), attempts = 10 where agent_id = $1`,
    values: [id],
  });
  const { status, body } = await viewer.api('GET', '/api/v1/conditions');
  expect(status).toBe(200);
  expect(body.items).toEqual([
    {
      id: `dead_letters:${id}`,
      snoozed: null,
      kind: 'dead_letters',
      severity: 'warning',
      text: expect.stringMatching(/^Agent .+ has 1 dead letter\.$/),
      fix: expect.stringContaining('replay'),
      url: `${app.settings.PUBLIC_URL}/deliveries?state=dead&agent_id=${id}`,
      webhook_id: null,
      agent_id: id,
      name: expect.any(String),
      count: 1,
      expect_every_seconds: null,
      since: null,
    },
  ]);
});
