/** kill -9 of processes, and of the consumer with its leases: every event reaches its agent. */
import { fork } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentsOf, letPass, signIn, TestAgent } from '../../helpers/agents.ts';
import { startSender } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';
import { kill, startWeir, type Weir } from '../../helpers/weir.ts';

/** No lease expires by itself. */
const LEASE_SECONDS = 3_600;
let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 });
});
afterAll(() => weir.stop());

/** Claims as fast as possible and acknowledges nothing; runs in a separate process that is killed. */
const greedy = `
const [url, token] = process.argv.slice(2);
const claim = () => fetch(url, { method: 'POST', headers: { authorization: 'Bearer ' + token },
  body: JSON.stringify({ max: 40, lease_seconds: ${LEASE_SECONDS}, wait_seconds: 5 }) }).then((answer) => answer.json());
let had = 0;
for (;;) had += await claim().then(({ deliveries }) => deliveries.length, () => 0), process.send(had);
`;

test('all events are delivered, and only leased deliveries are delivered again', async () => {
  const webhook = await weir.addWebhook();
  const webhookId = webhook.path.slice('/in/'.length);
  const url = `http://127.0.0.1:${weir.port}`;
  const agents = agentsOf(weir);
  const added = made(await agents.add({ name: 'test', webhook_ids: [webhookId] }));
  const agent = new TestAgent(url, added, await signIn({ url }, added.credential));

  const sender = startSender({ port: weir.port, ...webhook, lanes: 16 });
  const file = join(weir.dataDir, 'greedy.mjs');
  await writeFile(file, greedy);
  const victim = fork(file, [`${url}/api/v1/agent/deliveries/claim`, agent.token], { stdio: 'ignore' });
  let had = 0;
  victim.on('message', (count) => {
    had = Number(count);
  });

  const seen = new Map<string, number>();
  let stopped = false;
  let lost = 0;
  let empty = 0;
  const consumer = (async () => {
    while (!stopped) {
      try {
        const deliveries = await agent.claim({ max: 100, lease_seconds: LEASE_SECONDS, wait_seconds: 1 });
        for (const { event } of deliveries) seen.set(event.id, (seen.get(event.id) ?? 0) + 1);
        if (deliveries.length > 0) await agent.ack(deliveries.map(({ receipt }) => receipt));
        else empty++;
      } catch {
        // A connection to the killed process: its deliveries are claimable after their lease.
        lost++;
      }
    }
  })();

  try {
    await until(() => had > 100);
    kill(victim.pid!, 'SIGKILL');
    for (let round = 0; round < 2; round++) {
      const [oldest] = await weir.servingPids();
      await sender.acceptMore(200);
      kill(oldest!, 'SIGKILL');
      await until(async () => !(await weir.servingPids()).includes(oldest!));
      await sender.acceptMore(200);
    }
    await sender.stop();
    // Only the leases of the killed consumer are left, and they expire.
    const before = empty;
    await until(() => empty > before);
    await letPass(weir.database, LEASE_SECONDS);
    await until(() => [...sender.accepted.keys()].every((id) => seen.has(id)));
  } finally {
    await sender.stop();
    stopped = true;
    await consumer;
    kill(victim.pid!, 'SIGKILL');
  }

  const [row] = await weir.database.query<{ events: number; deliveries: number; orphans: number; again: number }>({
    text: `select (select count(*)::int from events where webhook_id = $1) as events, count(*)::int as deliveries,
        count(*) filter (where attempts > 1)::int as again,
        count(*) filter (where not exists (select from events e where e.received_at = d.received_at and e.id = d.event_id))::int as orphans
      from deliveries d where webhook_id = $1`,
    values: [webhookId],
  });
  const repeats = [...seen.values()].reduce((sum, times) => sum + times - 1, 0);
  // The consumer receives a delivery twice only if it could not acknowledge it.
  expect(repeats).toBeLessThanOrEqual((lost + 1) * 100);
  expect(row).toMatchObject({ deliveries: row!.events, orphans: 0 });
  expect(row!.again).toBeGreaterThan(0);
});
