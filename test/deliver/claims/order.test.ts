/** Order by key: of the events with one key, an agent gets the next one only when the one before is finished. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { insertAgent } from '../../../server/store/queries/agents/agents.ts';
import { dismissUndelivered } from '../../../server/store/queries/alerts/undelivered.ts';
import { readDeliveryDepths } from '../../../server/store/queries/deliveries/counts.ts';
import {
  addAgent,
  agentsOf,
  type Delivery,
  letPass,
  send,
  startAgentApp,
  type TestAgent,
} from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 2 }));
const operator = shared(() => addPerson(app, 'operator'));

interface Ordered {
  webhook: TestWebhook;
  agent: TestAgent;
  /** Sends an event with this key. Returns its id. */
  sent: (key: string | number | null) => Promise<string>;
}

async function ordered(order_by = '/key', given = {}): Promise<Ordered> {
  const webhook = await app.addWebhook(given);
  const agent = await addAgent(app, [webhook]);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by }));
  return { webhook, agent, sent: (key) => send(webhook, JSON.stringify(key === null ? {} : { key })) };
}

const idsOf = (deliveries: readonly Delivery[]) => deliveries.map(({ event }) => event.id);
const claimed = async (agent: TestAgent) => idsOf(await agent.claim());
const receiptsOf = (deliveries: readonly Delivery[]) => deliveries.map(({ receipt }) => receipt);

async function heldOf(agent: TestAgent): Promise<string[]> {
  const { body } = await operator.api('GET', `/api/v1/deliveries?held=true&agent_id=${agent.id}`);
  return body.items.map(({ event_id }: { event_id: string }) => event_id).reverse();
}

test('a key is held until its delivery is finished, and nothing else is', async () => {
  const { agent, sent } = await ordered();
  const [a1, a2, b1, none1, none2, a3] = [
    await sent('a'),
    await sent('a'),
    await sent(7),
    await sent(null),
    await sent(''),
    await sent('a'),
  ];
  const first = await agent.claim();
  expect(idsOf(first)).toEqual([a1, b1, none1, none2]);
  expect(await heldOf(agent)).toEqual([a2, a3]);
  const { body } = await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}`);
  const keyOf = new Map<string, string | null>(
    body.items.map((item: { event_id: string; order_key: string | null }) => [item.event_id, item.order_key]),
  );
  expect(keyOf.get(a1)).toMatch(/^[0-9a-f]{16}$/);
  expect([a2, a3].map((id) => keyOf.get(id))).toEqual([keyOf.get(a1), keyOf.get(a1)]);
  expect(keyOf.get(b1)).not.toBe(keyOf.get(a1));
  expect([keyOf.get(none1), keyOf.get(none2)]).toEqual([null, null]);

  expect(await claimed(agent)).toEqual([]);
  await agent.ack(receiptsOf(first.slice(0, 1)));
  expect(await claimed(agent)).toEqual([a2]);
  expect(await heldOf(agent)).toEqual([a3]);
});

test('a nack, an expired lease and a release hold the key, and a dead letter frees it', async () => {
  const { agent, sent } = await ordered();
  const [first, second] = [await sent('a'), await sent('a')];
  const other = await sent('b');
  expect(await agent.claim()).toHaveLength(2);
  await letPass(app.database, 3_601);
  const again = await agent.claim();
  expect(idsOf(again)).toEqual([first, other]);
  await agent.nack(receiptsOf(again), { release: true });
  const released = await agent.claim();
  expect(idsOf(released)).toEqual([first, other]);
  // The last of two attempts.
  await agent.nack(receiptsOf(released), { delay_seconds: 0 });
  expect(await claimed(agent)).toEqual([second]);
});

test('a delayed nack holds the key, and not the agent', async () => {
  const { agent, sent } = await ordered();
  const first = await sent('a');
  await agent.nack(receiptsOf(await agent.claim()), { delay_seconds: 3_600 });
  const [, free] = [await sent('a'), await sent('b')];
  expect(await claimed(agent)).toEqual([free]);
  await letPass(app.database, 3_601);
  expect(await claimed(agent)).toContain(first);
});

test('keys are read from headers, and those of two agents of a webhook from different places', async () => {
  const { webhook, agent } = await ordered('header:X-Customer');
  const byBody = await addAgent(app, [webhook]);
  made(await agentsOf(app).subscribe(byBody.id, webhook.id, { order_by: '/a~1b/0' }));
  const unordered = await addAgent(app, [webhook]);
  const post = async (customer: string, item: string) => {
    const body = JSON.stringify({ 'a/b': [item] });
    const response = await fetch(webhook.url, signedRequest({ ...webhook, body, headers: { 'x-customer': customer } }));
    return ((await response.json()) as { id: string }).id;
  };
  const ids = [await post('1', 'x'), await post('1', 'y'), await post('2', 'x')] as const;
  expect(await claimed(agent)).toEqual([ids[0], ids[2]]);
  expect(await claimed(byBody)).toEqual([ids[0], ids[1]]);
  expect(await claimed(unordered)).toEqual([...ids]);
});

test('lines of a batch, events with a dedupe header and compressed bodies are ordered', async () => {
  const { webhook, agent, sent } = await ordered('/key', { dedupe_header: 'x-id' });
  const body = ['{"key":1}', '{"key":2}', '{"key":1}', '{"key":1}'].join('\n');
  const response = await fetch(`${webhook.url}/batch`, signedRequest({ ...webhook, body, headers: { 'x-id': 'b' } }));
  const { ids } = (await response.json()) as { ids: string[] };
  const gzip = new Uint8Array(
    await new Response(new Blob(['{"key":1}']).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer(),
  );
  const compressed = await fetch(
    webhook.url,
    signedRequest({ ...webhook, body: gzip, headers: { 'content-encoding': 'gzip', 'x-id': 'c' } }),
  );
  const last = ((await compressed.json()) as { id: string }).id;
  const free = await sent(3);
  const order: string[][] = [];
  for (let claims = 0; claims < 4; claims++) {
    const deliveries = await agent.claim();
    order.push(idsOf(deliveries));
    await agent.ack(receiptsOf(deliveries));
  }
  expect(order).toEqual([[ids[0], ids[1], free], [ids[2]], [ids[3]], [last]]);
});

test.each([
  ['no pointer', 'key'],
  ['the empty pointer', ''],
  ['a bad escape', '/a~2'],
  ['too long a text', `/${'a'.repeat(1_000)}`],
  ['a header that is not stored', 'header:Authorization'],
  ['a header with a secret', 'header:x-api-key'],
  ['a signature header', 'header:X-Hub-Signature-256'],
  ['a name that is no header', 'header:a b'],
])('%s is refused as order_by_invalid', async (_what, order_by) => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app);
  const answer = await operator.api('PUT', `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`, { order_by });
  expect(answer).toMatchObject({ status: 422, body: { code: 'order_by_invalid' } });
  expect((await operator.api('GET', `/api/v1/agents/${agent.id}`)).body.webhooks).toBe(0);
});

test('a webhook has at most 4 distinct orders, listed with its subscriptions', async () => {
  const webhook = await app.addWebhook();
  const agents = await Promise.all(Array.from({ length: 6 }, () => addAgent(app, [webhook])));
  const put = (agent: TestAgent, order_by: string | null) =>
    operator.api('PUT', `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`, { order_by });
  for (const [place, agent] of agents.slice(0, 4).entries()) expect((await put(agent, `/${place}`)).status).toBe(200);
  expect((await put(agents[4]!, '/4')).body.code).toBe('order_by_invalid');
  expect((await put(agents[4]!, '/3')).status).toBe(200);
  expect((await put(agents[3]!, null)).status).toBe(200);
  expect((await put(agents[5]!, '/5')).body.code).toBe('order_by_invalid');
  expect((await put(agents[4]!, 'header:X-Customer')).status).toBe(200);
  const { body } = await operator.api('GET', `/api/v1/agents/${agents[4]!.id}/webhooks`);
  expect(body.items).toMatchObject([{ webhook_id: webhook.id, filter: null, order_by: 'header:x-customer' }]);
});

test('an order holds for events received after it was set, until it is removed or the subscription ends', async () => {
  const { webhook, agent, sent } = await ordered();
  const held = [await sent('a'), await sent('a'), await sent('a')];
  expect(await claimed(agent)).toEqual([held[0]]);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/other' }));
  expect(await claimed(agent)).toEqual([held[1], held[2]]);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/key' }));
  const later = [await sent('a'), await sent('a')];
  expect(await claimed(agent)).toEqual([later[0]]);
  made(await agentsOf(app).unsubscribe(agent.id, webhook.id));
  expect(await claimed(agent)).toEqual([later[1]]);
});

test('an event that commits later than one with a greater number waits for it, once that was claimed', async () => {
  const { webhook, agent, sent } = await ordered();
  await sent('other');
  await agent.ack(receiptsOf(await agent.claim()));
  const others = await ofTest(openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'test' }));
  let early = '';
  let late = '';
  await others.transaction(async (query) => {
    early = await copyOf(query, await sent('a'));
    const [own] = await agent.claim();
    await agent.ack([own!.receipt]);
    // Committed in between: it has a greater number than `early`, which is not visible.
    late = await sent('a');
    expect(await claimed(agent)).toEqual([late]);
  });
  expect(await claimed(agent)).toEqual([]);
  await letPass(app.database, 3_601);
  const again = await agent.claim();
  expect(idsOf(again)).toEqual([late]);
  await agent.ack(receiptsOf(again));
  expect(await claimed(agent)).toEqual([early]);
  expect(webhook.id).toBeDefined();

  /** Stores the event again as another one with the same keys. */
  async function copyOf(query: typeof others.query, id: string): Promise<string> {
    const [row] = await query<{ id: string }>({
      text: `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes, order_keys)
             select overlay(id::text placing 'ffffffffffff' from 25)::uuid, webhook_id, received_at, source_ip, headers, body, bytes, order_keys
             from events where id = $1 returning id`,
      values: [id],
    });
    return row!.id;
  }
});

test('of two claims that each see another delivery as the first of a key, the second one is repeated', async () => {
  const { agent, sent } = await ordered();
  const [first, second] = [await sent('a'), await sent('a')];
  const others = await ofTest(openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'test' }));
  let claiming: Promise<string[]> | undefined;
  await others.transaction(async (query) => {
    // What a claim with an older snapshot does, in which `second` is the first of its key.
    await query({
      text: `update deliveries set state = 'leased', order_number = 0, available_at = now() + interval '1 hour', leases = 1
             where agent_id = $1 and event_id = $2 and state = 'pending'`,
      values: [agent.id, second],
    });
    claiming = claimed(agent);
    await waitsForLock(query);
  });
  expect(await claiming).toEqual([]);
  await letPass(app.database, 3_601);
  expect(await claimed(agent)).toEqual([second]);
  expect(first).not.toBe(second);

  async function waitsForLock(query: typeof others.query): Promise<void> {
    for (;;) {
      const rows = await query({ text: `select from pg_locks where not granted and locktype = 'transactionid'` });
      if (rows.length > 0) return;
    }
  }
});

test('thousands that are held do not slow the claims of others, and are passed on one after the other', async () => {
  const { webhook, agent, sent } = await ordered();
  await sent('a');
  const [poison] = await agent.claim();
  await storeMore(webhook, 2_500);
  const free = await sent('b');
  await setAside(agent);
  expect(await asideOf(agent)).toBe(2_500);
  const { body } = await operator.api('GET', `/api/v1/deliveries?held=true&agent_id=${agent.id}&limit=1`);
  expect(body.items[0].available_at).toBe(body.items[0].received_at);
  const { agents } = await readDeliveryDepths(app.database);
  expect(agents.find(({ agentId }) => agentId === agent.id)).toMatchObject({ held: 2_500 });
  await letPass(app.database, 3_601);
  const again = await agent.claim();
  expect(idsOf(again)).toEqual([poison!.event.id, free]);
  const ids = [];
  for (let receipts = receiptsOf(again); ids.length < 3; ) {
    await agent.ack(receipts);
    const next = await agent.claim();
    ids.push(...idsOf(next));
    receipts = receiptsOf(next);
  }
  expect(ids).toEqual(ids.toSorted());
});

/** Stores as many events more with the key of the only one. */
async function storeMore(webhook: TestWebhook, count: number): Promise<void> {
  await app.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes, order_keys)
           select overlay(id::text placing lpad(to_hex(n), 12, '0') from 25)::uuid, webhook_id, received_at, source_ip, headers, body, bytes, order_keys
           from events, generate_series(1, $2) n where webhook_id = $1`,
    webhook.id,
    count,
  );
}

/** The first claim of a second sets aside what is held. */
async function setAside(agent: TestAgent): Promise<void> {
  for (let tries = 0; (await asideOf(agent)) === 0 && tries < 100; tries++)
    await agent.claim({ max: 1, wait_seconds: 1 });
}

async function asideOf({ id }: TestAgent): Promise<number> {
  const [row] = await app.sql<{ count: number }>(
    `select count(*)::int as count from deliveries where agent_id = $1 and available_at = 'infinity'`,
    id,
  );
  return row!.count;
}

test('deliveries of one key are dismissed without a look at the others for each, once their agent is revoked', async () => {
  const { webhook, agent, sent } = await ordered();
  await sent('a');
  await agent.claim();
  await storeMore(webhook, 2_000);
  made(await agentsOf(app).revoke(agent.id));
  const entries = await app.database.transaction(async (query) => {
    expect(await dismissUndelivered({ query }, agent.id, randomUUID())).toBe(2_001);
    const text = `select pg_stat_get_xact_tuples_returned('deliveries_in_order'::regclass)::int as entries`;
    return (await query<{ entries: number }>({ text }))[0]!.entries;
  });
  // It would be 2 million if each delivery were compared with all others.
  expect(entries).toBeLessThan(10_000);
});

test('nothing is held by what was moved away from an agent before it was restored', async () => {
  const { agent, sent } = await ordered();
  await sent('a');
  await agent.claim();
  const other = await addAgent(app);
  const [second] = [await sent('a'), await sent('a')];
  await setAside(agent);
  made(await agentsOf(app).revoke(agent.id));
  await app.sql(
    `update deliveries set agent_id = $2, order_key = null, order_lane = null, order_number = null
           where agent_id = $1 and available_at < 'infinity'`,
    agent.id,
    other.id,
  );
  expect(await asideOf(agent)).toBe(2);
  // As in a cell, where the subscription stays.
  const again = { name: 'again', temporary: false, maxLeased: null, paused: false };
  const credential = { lookupId: 'restored0000', secretHash: Buffer.alloc(32) };
  expect(await insertAgent(app.database.query, { id: agent.id, ...again, ...credential })).toBe(true);
  const available = `select event_id as id from deliveries where agent_id = $1 and available_at <= now()`;
  expect(await app.sql(available, agent.id)).toEqual([{ id: second }]);
});

test('an acknowledgement wakes the claim that waits for its key', async () => {
  const { agent, sent } = await ordered();
  const [, second] = [await sent('a'), await sent('a')];
  const [first] = await agent.claim();
  const waiting = agent.claim({ wait_seconds: 30 });
  await agent.ack([first!.receipt]);
  const next = await waiting;
  expect(idsOf(next)).toEqual([second]);
  const third = await sent('a');
  // What an acknowledgement frees can be claimed by the request that contains it.
  const { body } = await agent.post('claim', { max: 1, ack: receiptsOf(next) });
  expect(idsOf(body.deliveries)).toEqual([third]);
});

test('a replay is ordered within itself, and waits for nothing newer', async () => {
  const { agent, sent } = await ordered();
  const ids = [await sent('a'), await sent('a'), await sent('a')];
  for (const _ of ids) await agent.ack(receiptsOf(await agent.claim()));
  const newer = await sent('a');
  expect(await claimed(agent)).toEqual([newer]);
  for (const id of ids.toReversed().slice(1)) await operator.api('POST', `/api/v1/events/${id}/replay`, {});
  // Each is a replay by itself.
  const replays = await agent.claim();
  expect(idsOf(replays)).toEqual([ids[0], ids[1]]);
  await agent.ack(receiptsOf(replays));
  const { body } = await operator.api('POST', '/api/v1/deliveries/replay', { agent_id: agent.id, state: 'done' });
  expect(body.replayed).toBe(5);
  const order: string[] = [];
  for (let left = 5; left > 0; left--) {
    const deliveries = await agent.claim();
    expect(deliveries).toHaveLength(1);
    order.push(...idsOf(deliveries));
    await agent.ack(receiptsOf(deliveries));
  }
  expect(order).toEqual([ids[0], ids[0], ids[1], ids[1], ids[2]]);
});

test('what a filter excludes does not hold a key, also with a limit on leases', async () => {
  const { webhook, agent, sent } = await ordered();
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: 'bytes < 20' }));
  made(await agentsOf(app).update(agent.id, { max_leased: 1 }));
  const long = () => send(webhook, JSON.stringify({ key: 'a', more: 'x'.repeat(20) }));
  await long();
  const first = await sent('a');
  await long();
  await long();
  const [second, free] = [await sent('a'), await sent('b')];
  const order: string[][] = [];
  for (let claims = 0; claims < 3; claims++) {
    const deliveries = await agent.claim();
    order.push(idsOf(deliveries));
    await agent.ack(receiptsOf(deliveries));
  }
  expect(order).toEqual([[free], [first], [second]]);
});
