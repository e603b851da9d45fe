/** Claims of an agent with a filter while Weir and its Postgres are killed: every event that passes is delivered, and no other. */
import { expect, test } from 'vitest';
import { addAgent, agentsOf, letPass, storeEvents, type TestAgent } from '../../helpers/agents.ts';
import type { Chain } from '../../helpers/chain.ts';
import { processesOf } from '../../helpers/processes.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';
import { asApp, kill } from '../../helpers/weir.ts';

const EVENTS = 3_000;
/** One of this many events passes the filter. */
const EACH = 10;

export function filterTests(chain: Chain): void {
  /** Ids of events by the state of their delivery. */
  async function eventsByState({ id }: TestAgent): Promise<Record<string, string[]>> {
    const rows = await chain.weir.sql<{ state: string; ids: string[] }>(
      'select state, json_agg(event_id order by event_id) as ids from deliveries where agent_id = $1 group by state',
      id,
    );
    return Object.fromEntries(rows.map(({ state, ids }) => [state, ids]));
  }

  test('kill -9 of Weir between verdicts and leases, then of Weir and Postgres between claims and acks', async () => {
    const app = asApp(chain.weir);
    const webhook = await chain.weir.addWebhook();
    let agent = await addAgent(app, [{ ...webhook, url: app.url + webhook.path }]);
    const agents = agentsOf(chain.weir);
    made(await agents.subscribe(agent.id, webhook.id, { filter: 'event_type == "wanted"' }));
    // Claims of an agent with a limit lock its row before they lease.
    made(await agents.update(agent.id, { max_leased: EVENTS }));
    const stored = (await storeEvents(chain.weir.database, webhook.id, EVENTS)).toSorted();
    const isWanted = (_: string, place: number) => place % EACH === 0;
    const wanted = stored.filter(isWanted);
    const unwanted = stored.filter((id, place) => !isWanted(id, place));
    await chain.weir.sql(
      `update events set event_type = 'wanted' where webhook_id = $1 and id = any ($2::uuid[])`,
      webhook.id,
      `{${wanted.join(',')}}`,
    );

    const expectNothingLost = async () => {
      const { pending = [], leased = [], filtered = [], done = [], ...others } = await eventsByState(agent);
      expect(others).toEqual({});
      expect([...pending, ...leased, ...filtered, ...done].toSorted()).toEqual(stored);
      expect(filtered.filter((id) => wanted.includes(id))).toEqual([]);
      expect([...leased, ...done].filter((id) => !wanted.includes(id))).toEqual([]);
    };

    await chain.weir.database.transaction(async (query) => {
      await query({ text: 'set local idle_in_transaction_session_timeout = 0' });
      await query({ text: 'select from agents where id = $1 for no key update', values: [agent.id] });
      const claim = agent.claim().catch(() => 'connection lost');
      await until(async () => 'filtered' in (await eventsByState(agent)));
      for (const pid of [chain.weir.pid, ...(await chain.weir.servingPids())]) kill(pid, 'SIGKILL');
      await chain.weir.ended;
      expect(await claim).toBe('connection lost');
    });
    await expectNothingLost();
    await chain.startAgain();
    agent = agent.at(asApp(chain.weir));
    const received: string[] = [];
    const consume = async () => {
      for (;;) {
        const deliveries = await agent.claim({ max: 7, wait_seconds: 1 });
        received.push(...deliveries.map(({ event }) => event.id));
        if (deliveries.length > 0) await agent.ack(deliveries.map(({ receipt }) => receipt));
      }
    };
    const lost = Promise.allSettled([consume(), consume(), consume()]);
    await until(() => received.length > 0);
    for (const { pid } of await processesOf(chain.weir.dataDir)) kill(pid, 'SIGKILL');
    await chain.weir.ended;
    await lost;
    await chain.startAgain();
    agent = agent.at(asApp(chain.weir));
    await expectNothingLost();
    await letPass(chain.weir.database, 3600);
    await until(async () => {
      const deliveries = await agent.claim({ wait_seconds: 1 });
      received.push(...deliveries.map(({ event }) => event.id));
      if (deliveries.length > 0) await agent.ack(deliveries.map(({ receipt }) => receipt));
      const { pending, leased } = await eventsByState(agent);
      return pending === undefined && leased === undefined;
    });
    expect(await eventsByState(agent)).toEqual({ done: wanted, filtered: unwanted });
    expect([...new Set(received)].toSorted()).toEqual(wanted);
  });
}
