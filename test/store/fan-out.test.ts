/** The trigger that creates deliveries: absent until the first subscription, because it slows every COPY down. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Query } from '../../server/store/connect/pool.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { ofEach } from '../helpers/shared.ts';

const fresh = ofEach(freshDatabase);

/** The state of the trigger: null, or `O` (enabled) or `D` (disabled). */
async function stateOfTrigger(): Promise<string | null> {
  const rows = await fresh.sql<{ state: string }>(
    `select tgenabled as state from pg_trigger where tgname = 'events_fan_out' and tgrelid = 'events'::regclass`,
  );
  return rows[0]?.state ?? null;
}

/** Creates an agent and its subscription of a new webhook. Resolves with the id of the webhook. */
async function subscribe(query: Query): Promise<string> {
  const [webhookId, agentId] = [randomUUID(), randomUUID()];
  await query({ text: 'insert into webhooks (id, name) values ($1, $2)', values: [webhookId, 'orders'] });
  await query({
    text: `insert into agents (id, name, lookup_id, secret_hash) values ($1, $2, 'abcdef' || left($2, 6), sha256('x'))`,
    values: [agentId, agentId.slice(0, 8)],
  });
  await query({ text: 'insert into subscriptions values ($1, $2)', values: [webhookId, agentId] });
  return webhookId;
}

/** Stores one event of the webhook. Resolves with its number of deliveries. */
async function deliveriesOfAnEvent(webhookId: string): Promise<number> {
  const id = randomUUID();
  await fresh.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes) values ($1, $2, now(), '127.0.0.1', '', '', 0)`,
    id,
    webhookId,
  );
  const rows = await fresh.sql('select from deliveries where event_id = $1', id);
  return rows.length;
}

test('a database without subscriptions has no trigger; two first subscriptions at once create it', async () => {
  expect(await stateOfTrigger()).toBeNull();
  const { database } = fresh;
  // The second waits for the lock of the first, whose transaction is held open until then.
  let second: Promise<string> | undefined;
  const first = await database.transaction(async (query) => {
    const webhookId = await subscribe(query);
    second = subscribe(database.query);
    for (let waiting = false; !waiting; )
      [{ waiting }] = (await query({
        text: `select exists (select from pg_locks where relation = 'events'::regclass and not granted) as waiting`,
      })) as [{ waiting: boolean }];
    return webhookId;
  });
  expect(await stateOfTrigger()).toBe('O');
  for (const webhookId of [first, await second!]) expect(await deliveriesOfAnEvent(webhookId)).toBe(1);
});
