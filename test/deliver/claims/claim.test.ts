/** Responses and order of claims, and expired leases. */

import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import type { Query } from '../../../server/store/connect/pool.ts';
import { claimDeliveries } from '../../../server/store/queries/claims/claim.ts';
import {
  addAgent,
  letPass,
  send,
  startAgentApp,
  storeEvents,
  subscribed,
  type TestAgent,
} from '../../helpers/agents.ts';
import { orderOf } from '../../helpers/claims.ts';
import { signatureOf, signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 3 }));

/** An agent with 105 webhooks. @returns their ids in order */
async function addAgentOfMany() {
  const agent = await addAgent(app, []);
  const added = await app.sql<{ id: string }>(
    `insert into webhooks (id, name) select gen_random_uuid(), 'one of many' from generate_series(1, 105) returning id`,
  );
  const ids = added.map(({ id }) => id).sort();
  await app.sql(
    'insert into subscriptions (webhook_id, agent_id) select id, $2 from unnest($1::uuid[]) id',
    `{${ids}}`,
    agent.id,
  );
  return { agent, ids };
}

/** Deliveries of the agent that no transaction has locked. */
const unlockedOf = (agent: TestAgent) =>
  app.sql(
    `select from deliveries where agent_id = $1 and state in ('pending', 'leased') for update skip locked`,
    agent.id,
  );

const eventIds = (deliveries: readonly { event: { id: string } }[]) => deliveries.map(({ event }) => event.id);

test('the lines of a batch are delivered in order, in one claim and in several', async () => {
  const { webhook, agent } = await subscribed(app);
  for (const max of [1000, 7]) {
    const body = Array.from({ length: 200 }, (_, line) => `{"line":${line}}`).join('\n');
    expect((await fetch(`${webhook.url}/batch`, signedRequest({ secret: webhook.secret, body }))).status).toBe(202);
    const lines: number[] = [];
    while (lines.length < 200)
      lines.push(...(await agent.claim({ max })).map(({ event }) => JSON.parse(event.body!).line as number));
    expect(lines).toEqual(Array.from({ length: 200 }, (_, line) => line));
  }
});

describe('a delivery', () => {
  test('has exactly the members of the contract', async () => {
    const webhook = await app.addWebhook({
      name: 'orders',
      signature_header: 'X-Own',
      event_type_from: 'header:x-event',
    });
    const agent = await addAgent(app, [webhook]);
    const body = '{"grüße":"\\u0000 is not a NUL"}';
    const sentMs = Date.now();
    const response = await fetch(webhook.url, {
      method: 'POST',
      body,
      headers: {
        'Content-Type': 'application/json; charset=utf-8',
        'X-Own': signatureOf(webhook.secret!, body),
        'X-Event': 'made',
        Authorization: 'Basic c2VjcmV0OnNlY3JldA==',
        Cookie: 'session=secret',
        'X-Api-Key': 'secret',
        'X-Gitlab-Token': 'secret',
        'X-Client-Secret': 'secret',
      },
    });
    const { id, received_at } = (await response.json()) as { id: string; received_at: string };
    const [delivery, ...more] = await agent.claim({ lease_seconds: 60 });
    expect(more).toEqual([]);
    expect(delivery).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{14}7/),
      receipt: expect.any(String),
      attempt: 1,
      leased_until: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      event: {
        id,
        webhook_id: webhook.id,
        webhook_name: 'orders',
        received_at,
        event_type: 'made',
        content_type: 'application/json; charset=utf-8',
        headers: expect.any(Object),
        body,
      },
    });
    const leasedAtMs = Date.parse(delivery!.leased_until) - 60_000;
    expect([leasedAtMs >= sentMs - 1, leasedAtMs <= Date.now() + 1]).toEqual([true, true]);
    expect(delivery!.event.headers).toMatchObject({
      'x-event': 'made',
      'content-length': String(Buffer.byteLength(body)),
    });
    expect(JSON.stringify(delivery!.event.headers)).not.toMatch(
      /secret|c2VjcmV0|x-own|sha256|authorization|cookie|key|token/i,
    );
  });

  test.each<[string, Uint8Array<ArrayBuffer>, 'body' | 'body_base64']>([
    ['text', Buffer.from('plain'), 'body'],
    ['an empty one', Buffer.alloc(0), 'body'],
    ['text of many scripts', Buffer.from('añb – 語 – 👩‍🚀\r\n\t"\\'), 'body'],
    ['text with NUL', Buffer.from('a\0b'), 'body_base64'],
    ['a byte that is not UTF-8', Buffer.from([0x61, 0xff]), 'body_base64'],
    ['text cut in a character', Buffer.from('語').subarray(0, 2), 'body_base64'],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80]), 'body_base64'],
    ['all bytes there are', Buffer.from(Array.from({ length: 256 }, (_, i) => i)), 'body_base64'],
  ])('contains its body unchanged: %s', async (_what, body, member) => {
    const { webhook, agent } = await subscribed(app);
    await send(webhook, body);
    const { event } = await agent.claimOne();
    expect(Object.keys(event).filter((key) => key.startsWith('body'))).toEqual([member]);
    expect(Buffer.from(event[member]!, member === 'body' ? 'utf8' : 'base64').equals(body)).toBe(true);
  });

  test('has no content type if the sender gave none', async () => {
    const webhook = await app.addWebhook({ secret: null });
    const agent = await addAgent(app, [webhook]);
    await fetch(webhook.url, { method: 'POST', body: Buffer.from('x') });
    expect((await agent.claimOne()).event.content_type).toBeNull();
  });
});

describe('the order', () => {
  test('is oldest first', async () => {
    const { webhook, agent } = await subscribed(app);
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) {
      // The order of events of one millisecond is open.
      for (const sentMs = Date.now(); Date.now() === sentMs; ) await setImmediate();
      ids.push(await send(webhook, `${i}`));
    }
    expect(eventIds(await agent.claim({ max: 5 }))).toEqual(ids.slice(0, 5));
    expect(eventIds(await agent.claim())).toEqual(ids.slice(5));
  });

  test('spans days, in one claim and in several', async () => {
    const { webhook, agent } = await subscribed(app);
    const storeDays = async () => {
      const stored = [];
      for (const days of [-1, 0, 1])
        stored.push(...(await storeEvents(app.database, webhook.id, 1, Date.now() + days * DAY_MS)));
      return stored;
    };
    const stored = await storeDays();
    expect(eventIds(await agent.claim({ max: 2 }))).toEqual(stored.slice(0, 2));
    expect(eventIds(await agent.claim({ wait_seconds: 5 }))).toEqual(stored.slice(2));
    // The events of other days than those of the claim before.
    const later = await storeDays();
    const claimed = [await agent.claimOne(), await agent.claimOne(), await agent.claimOne()];
    expect(eventIds(claimed)).toEqual(later);
    expect(claimed.map(({ event }) => event.body)).toEqual(Array(3).fill(expect.any(String)));
  });

  test('reaches a webhook that is subscribed to while the first one has a backlog', async () => {
    const [first, second] = [await app.addWebhook(), await app.addWebhook()];
    const agent = await addAgent(app, [first]);
    await storeEvents(app.database, first.id, 500);
    await agent.claimOne();
    made(await app.webhooks.update(second.id, { agent_ids: [agent.id] }));
    const wanted = await send(second);
    let reached = false;
    for (let left = 400; left > 0 && !reached; left--) reached = (await agent.claimOne()).event.id === wanted;
    expect(reached).toBe(true);
  });

  test('of single deliveries, the default, alternates between webhooks: a flood in one does not delay two others', async () => {
    const [flood, ...others] = [await app.addWebhook(), await app.addWebhook(), await app.addWebhook()];
    const agent = await addAgent(app, [flood!, ...others]);
    await storeEvents(app.database, flood!.id, 5_000);
    await letPass(app.database, 3_600);
    for (const { id } of others) await storeEvents(app.database, id, 5);
    const claimed: string[] = [];
    for (let turn = 0; turn < 12; turn++) claimed.push((await agent.claimOne()).event.webhook_id);
    const count = (id: string) => claimed.filter((webhookId) => webhookId === id).length;
    expect([flood!, ...others].map(({ id }) => count(id))).toEqual([4, 4, 4]);
    // The other webhooks are empty soon. Afterwards no delivery of the flood may have been skipped.
    for (let turn = 0; turn < 40; turn++) claimed.push((await agent.claimOne()).event.webhook_id);
    expect([flood!, ...others].map(({ id }) => count(id))).toEqual([42, 5, 5]);
  });

  test('continues with the webhook after the last one of the previous claim', async () => {
    const webhooks = [await app.addWebhook(), await app.addWebhook(), await app.addWebhook()];
    const agent = await addAgent(app, webhooks);
    for (const { id } of webhooks) await storeEvents(app.database, id, 10);
    const claimed: string[] = [];
    for (let turn = 0; turn < 3; turn++)
      claimed.push(...(await agent.claim({ max: 2 })).map(({ event }) => event.webhook_id));
    expect(webhooks.map(({ id }) => claimed.filter((webhookId) => webhookId === id).length)).toEqual([2, 2, 2]);
  });

  test('is fair between webhooks: a flood in one does not delay the few of another', async () => {
    const [flood, few] = [await app.addWebhook(), await app.addWebhook()];
    const agent = await addAgent(app, [flood, few]);
    await storeEvents(app.database, flood.id, 1000);
    const wanted = await storeEvents(app.database, few.id, 3);
    const first = await agent.claim({ max: 10 });
    expect(first).toHaveLength(10);
    expect(
      eventIds(first)
        .filter((id) => wanted.includes(id))
        .sort(),
    ).toEqual([...wanted].sort());
    expect(await agent.claim({ max: 1000 })).toHaveLength(993);
  });

  test('of a few out of many webhooks leaves the others to a concurrent claim', async () => {
    const webhooks = await Promise.all(Array.from({ length: 20 }, () => app.addWebhook()));
    const agent = await addAgent(app, webhooks);
    for (const { id } of webhooks) await storeEvents(app.database, id, 60);
    const order = orderOf(agent.id, { max: 100 });
    await app.database.transaction(async (query) => {
      expect((await claimDeliveries({ ...app.database, query }, order)).claimed).toHaveLength(100);
      expect(await agent.claim({ max: 100 })).toHaveLength(100);
    });
  });

  test('of many webhooks takes those with deliveries in turn, and locks nothing of those that it does not reach', async () => {
    const { agent, ids } = await addAgentOfMany();
    const busy = [ids[3]!, ids[50]!, ids[104]!];
    for (const id of busy) await storeEvents(app.database, id, 2);
    const claimAfter = async (afterWebhookId: string | null, query: Query = app.database.query) => {
      const order = orderOf(agent.id, { max: 1, hasManyWebhooks: true, afterWebhookId });
      return (await claimDeliveries({ ...app.database, query }, order)).claimed.map(({ webhookId }) => webhookId);
    };
    await app.database.transaction(async (query) => {
      expect(await claimAfter(null, query)).toEqual([busy[0]]);
      expect(await unlockedOf(agent)).toHaveLength(5);
    });
    expect(await claimAfter(busy[0]!)).toEqual([busy[1]]);
    expect(await claimAfter(busy[1]!)).toEqual([busy[2]]);
    expect(await claimAfter(busy[2]!)).toEqual([busy[0]]);
    expect(await claimAfter(busy[0]!)).toEqual([busy[1]]);
    expect(await claimAfter(busy[1]!)).toEqual([busy[2]]);
    expect(await claimAfter(busy[2]!)).toEqual([]);
  });

  test('of many webhooks locks no more than it returns when each has a delivery', async () => {
    const { agent, ids } = await addAgentOfMany();
    for (const id of ids.slice(0, 20)) await storeEvents(app.database, id, 5);
    await app.database.transaction(async (query) => {
      const order = orderOf(agent.id, { hasManyWebhooks: true });
      const { claimed } = await claimDeliveries({ ...app.database, query }, order);
      expect(claimed.map(({ webhookId }) => webhookId).sort()).toEqual(ids.slice(0, 10));
      expect(await unlockedOf(agent)).toHaveLength(90);
    });
  });

  test('of several webhooks passes over one whose deliveries are locked', async () => {
    const webhooks = await Promise.all(Array.from({ length: 3 }, () => app.addWebhook()));
    const agent = await addAgent(app, webhooks);
    const ids = webhooks.map(({ id }) => id).sort();
    for (const id of ids) await storeEvents(app.database, id, 1);
    await app.database.transaction(async (query) => {
      const text = 'select from deliveries where webhook_id = $1 for update';
      expect(await query({ text, values: [ids[0]!] })).toHaveLength(1);
      expect((await agent.claimOne()).event.webhook_id).toBe(ids[1]);
    });
  });

  test('of 21 webhooks fills up with deliveries of the only one that has some', async () => {
    const webhooks = await Promise.all(Array.from({ length: 21 }, () => app.addWebhook()));
    const agent = await addAgent(app, webhooks);
    await storeEvents(app.database, webhooks[0]!.id, 100);
    expect(await agent.claim({ max: 100 })).toHaveLength(100);
  });

  test('of many webhooks fills up with deliveries of one when the others have a few', async () => {
    const { agent, ids } = await addAgentOfMany();
    await storeEvents(app.database, ids[0]!, 30);
    for (const id of ids.slice(1, 10)) await storeEvents(app.database, id, 1);
    const order = orderOf(agent.id, { max: 20, hasManyWebhooks: true });
    const { claimed } = await claimDeliveries(app.database, order);
    expect(claimed.filter(({ webhookId }) => webhookId === ids[0])).toHaveLength(11);
    expect(claimed).toHaveLength(20);
  });

  test('returns to a delivery after others that wait longer', async () => {
    const { webhook, agent } = await subscribed(app);
    const first = await send(webhook);
    const { receipt } = await agent.claimOne();
    const second = await send(webhook);
    await delay(2);
    await agent.nack([receipt], { delay_seconds: 0 });
    expect(eventIds([await agent.claimOne(), await agent.claimOne()])).toEqual([second, first]);
  });
});

test('webhook_ids filters; an unsubscribed webhook gives nothing', async () => {
  const [a, b, foreign] = [await app.addWebhook(), await app.addWebhook(), await app.addWebhook()];
  const agent = await addAgent(app, [a, b]);
  await addAgent(app, [foreign]);
  const [ofA, ofB] = [await send(a), await send(b)];
  await send(foreign);
  expect(await agent.claim({ webhook_ids: [foreign.id] })).toEqual([]);
  expect(await agent.claim({ webhook_ids: [] })).toEqual([]);
  expect(eventIds(await agent.claim({ webhook_ids: [b.id.toUpperCase(), foreign.id] }))).toEqual([ofB]);
  expect(eventIds(await agent.claim())).toEqual([ofA]);
});

describe('an expired lease', () => {
  test('can be claimed again and counts as an attempt', async () => {
    const { webhook, agent } = await subscribed(app);
    await send(webhook);
    const first = await agent.claimOne({ lease_seconds: 60 });
    expect(await agent.claim()).toEqual([]);
    await letPass(app.database, 30);
    expect(await agent.claim()).toEqual([]);
    await letPass(app.database, 30);
    const second = await agent.claimOne();
    expect([second.id, second.attempt, second.event]).toEqual([first.id, 2, first.event]);
    expect(second.receipt).not.toBe(first.receipt);
  });

  test('without attempts left does not hide claimable deliveries behind it', async () => {
    const { webhook, agent } = await subscribed(app);
    await storeEvents(app.database, webhook.id, 5);
    await agent.claim();
    const text = `update deliveries set attempts = 3, available_at = now() - interval '1 hour' where agent_id = $1`;
    await app.sql(text, agent.id);
    const fresh = await send(webhook);
    expect(eventIds(await agent.claim({ max: 2 }))).toEqual([fresh]);
  });
});
