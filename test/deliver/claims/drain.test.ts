/** A long backlog, drained by several consumers of one agent: 100,000 deliveries with FUZZ_FACTOR=5. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addAgent, startAgentApp, storeEvents } from '../../helpers/agents.ts';
import type { TestApp } from '../../helpers/app.ts';
import { fuzzRuns } from '../../helpers/fuzz.ts';

const STORED = fuzzRuns(20) * 1_000;
const CONSUMERS = 4;

let app: TestApp;
beforeAll(async () => {
  app = await startAgentApp();
});
afterAll(() => app.stop());

test(`${STORED} deliveries are drained without loss or repetition`, async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  for (let stored = 0; stored < STORED; stored += 1_000) await storeEvents(app.database, webhook.id, 1_000);
  const seen = new Map<string, number>();
  const consume = async () => {
    for (;;) {
      const claimed = await agent.claim({ max: 1000, lease_seconds: 600 });
      // Other consumers may hold the rest during their claim: only the table decides when the work is done.
      if (claimed.length === 0 && seen.size === STORED) return;
      for (const { event } of claimed) seen.set(event.id, (seen.get(event.id) ?? 0) + 1);
      if (claimed.length > 0) await agent.ack(claimed.map(({ receipt }) => receipt));
    }
  };
  await Promise.all(Array.from({ length: CONSUMERS }, consume));
  expect([...seen.values()].filter((times) => times > 1)).toEqual([]);
  const [left] = await app.database.query<{ left: number }>({
    text: `select count(*)::int as left from deliveries where state <> 'done'`,
  });
  expect(left).toEqual({ left: 0 });
});
