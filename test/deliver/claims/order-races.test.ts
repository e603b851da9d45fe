/** Order by key under concurrency: whatever happens to the consumers, each key is delivered one event at a time, in the order of its commits. */
import { expect, test } from 'vitest';
import {
  addAgent,
  agentsOf,
  type Delivery,
  send,
  startAgentApp,
  startSecondApp,
  type TestAgent,
} from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1_000 }));
const second = shared(() => startSecondApp(app));

const KEYS = 5;
const EVENTS_OF_KEY = 60;
const BATCH = 5;
/** Tells these leases from those of claims whose response is read, which are half as long. */
const LOST_LEASE_SECONDS = 3_600;

/** Numbers from 0 to 1, the same in each run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** What may be claimed of each key: nothing beside the delivery that was begun, and nothing before those sent earlier. */
class Queues {
  /** Event ids of each key in the order in which they were sent, as far as they are not finished. */
  readonly left = new Map<string, string[]>();
  readonly begun = new Map<string, string>();
  readonly faults: string[] = [];

  claimed(key: string, id: string): void {
    const other = this.begun.get(key);
    if (other !== undefined && other !== id) this.faults.push(`${id} beside ${other} of key ${key}`);
    if (this.left.get(key)?.[0] !== id) this.faults.push(`${id} before ${this.left.get(key)?.[0]} of key ${key}`);
    this.begun.set(key, id);
  }

  /** Called before the acknowledgement is sent: from then on the next one may be claimed. */
  finishing(key: string, id: string): void {
    this.begun.delete(key);
    this.left.set(key, this.left.get(key)?.filter((one) => one !== id) ?? []);
  }
}

test('8 consumers with nacks, releases, lost claims, expired leases and a replay get the events of each key in order', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const operator = await addPerson(app, 'operator');
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/key' }));
  const live = new Queues();
  const replay = new Queues();
  /** Ids of the events whose first delivery was acknowledged, and those that are to be, of both kinds. */
  const finished = new Set<string>();
  let expected = KEYS * EVENTS_OF_KEY;
  let acknowledged = 0;

  const sending = Array.from({ length: KEYS }, async (_, index) => {
    const key = String(index);
    live.left.set(key, []);
    for (let sent = 0; sent < EVENTS_OF_KEY; sent += BATCH) {
      const lines = Array.from({ length: BATCH }, () => JSON.stringify({ key }));
      const response = await fetch(`${webhook.url}/batch`, signedRequest({ ...webhook, body: lines.join('\n') }));
      const { ids } = (await response.json()) as { ids: string[] };
      // A consumer may have claimed them before this response was read: it waits until they are known.
      live.left.get(key)!.push(...ids);
    }
  });

  const keyOf = ({ event }: Delivery) => (JSON.parse(event.body!) as { key: string }).key;
  const known = async (key: string, id: string) => {
    while (!live.left.get(key)!.includes(id) && !finished.has(id)) await new Promise((next) => setImmediate(next));
  };

  async function consume(place: TestAgent, random: () => number): Promise<void> {
    while (acknowledged < expected) {
      const isLost = random() < 0.1;
      const abort = new AbortController();
      if (isLost) setTimeout(() => abort.abort(), random() * 5);
      const lease_seconds = isLost ? LOST_LEASE_SECONDS : 1_800;
      const order = { max: 1 + Math.floor(random() * 4), lease_seconds, wait_seconds: 1 };
      const answer = await place.post('claim', order, abort.signal).catch(() => null);
      const deliveries: Delivery[] = isLost ? [] : answer!.body.deliveries;
      if (deliveries.length === 0) await expireLost();
      for (const delivery of deliveries) {
        const key = keyOf(delivery);
        const { id } = delivery.event;
        await known(key, id);
        const queues = finished.has(id) ? replay : live;
        queues.claimed(key, id);
        const chance = random();
        if (chance < 0.15) await place.nack([delivery.receipt], { delay_seconds: 0 });
        else if (chance < 0.25) await place.nack([delivery.receipt], { release: true });
        else if (chance < 0.35) await expire(`id = $2`, delivery.id);
        else {
          queues.finishing(key, id);
          finished.add(id);
          if ((await place.ack([delivery.receipt])).done.length > 0) acknowledged++;
        }
      }
    }
  }

  /** Ends the leases of claims whose consumer was killed, or lost the response. */
  const expireLost = () => expire(`available_at > now() + $2::interval`, '31 minutes');

  async function expire(which: string, value: string): Promise<void> {
    await app.database.query({
      text: `update deliveries set available_at = now() where agent_id = $1 and state = 'leased' and ${which}`,
      values: [agent.id, value],
    });
  }

  const places = [agent, agent.at(second)];
  const consumers = Array.from({ length: 8 }, (_, i) => consume(places[i % 2]!, randomFrom(i + 1)));
  await Promise.all(sending);
  // Halfway: what is done is delivered again, beside what is new.
  while (acknowledged < expected / 2) await new Promise((next) => setTimeout(next, 5));
  const { body } = await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}&state=done&limit=100`);
  const ids = body.items.map((item: { id: string }) => item.id);
  const events = body.items.map((item: { event_id: string }) => item.event_id).sort();
  for (const [key, left] of await keysOf(events)) replay.left.set(key, left);
  expected += ids.length;
  const replayed = await operator.api('POST', '/api/v1/deliveries/replay', { delivery_ids: ids });
  expect(replayed.body.replayed).toBe(ids.length);
  await Promise.all(consumers);

  expect(live.faults).toEqual([]);
  expect(replay.faults).toEqual([]);
  expect([...live.left.values(), ...replay.left.values()].flat()).toEqual([]);

  async function keysOf(events: readonly string[]): Promise<Map<string, string[]>> {
    const byKey = new Map<string, string[]>();
    const rows = await app.database.query<{ id: string; key: string }>({
      text: `select id, convert_from(body, 'UTF8')::json ->> 'key' as key from events where id = any ($1::uuid[]) order by id`,
      values: [`{${events.join(',')}}`],
    });
    for (const { id, key } of rows) byKey.set(key, [...(byKey.get(key) ?? []), id]);
    return byKey;
  }
});

test('events of one key that are sent at once are each delivered once, one at a time', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/key' }));
  const there = { ...webhook, url: `${second.url}${webhook.path}` };
  const sent = Promise.all(Array.from({ length: 200 }, (_, i) => send(i % 2 === 0 ? webhook : there, '{"key":1}')));
  const got: string[] = [];
  let working = 0;
  await Promise.all(
    [agent, agent.at(second), agent, agent.at(second)].map(async (place) => {
      while (got.length < 200) {
        const deliveries = await place.claim({ max: 10, wait_seconds: 1 });
        expect(deliveries.length).toBeLessThanOrEqual(1);
        for (const { event, receipt } of deliveries) {
          expect(++working).toBe(1);
          got.push(event.id);
          working--;
          await place.ack([receipt]);
        }
      }
    }),
  );
  expect(got.toSorted()).toEqual((await sent).toSorted());
});
