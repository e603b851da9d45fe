/** Plans of claims that were made while the tables were empty: a connection keeps them while the tables grow. */
import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { expect, test } from 'vitest';
import { DAY_MS } from '../../server/base/time/durations.ts';
import type { Database, Query } from '../../server/store/connect/pool.ts';
import { uuidAt, uuidText, uuidv7 } from '../../server/store/ids.ts';
import { readAgentActivity, readWaiting } from '../../server/store/queries/agents/activity.ts';
import { listAgents } from '../../server/store/queries/agents/agents.ts';
import { readDeadGroups, readNewDeadLetters } from '../../server/store/queries/alerts/condition-signs.ts';
import { readUndelivered } from '../../server/store/queries/alerts/undelivered.ts';
import { claimDeliveries } from '../../server/store/queries/claims/claim.ts';
import { agentsWithWork } from '../../server/store/queries/claims/room.ts';
import { countDeliveries } from '../../server/store/queries/deliveries/counts.ts';
import { groupDeadLetters } from '../../server/store/queries/deliveries/deliveries.ts';
import { listDeliveries } from '../../server/store/queries/deliveries/lists.ts';
import { everyToken, listTokens } from '../../server/store/queries/users/tokens.ts';
import { readLatency } from '../../server/store/queries/webhooks/latency.ts';
import { orderOf } from '../helpers/claims.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { shared } from '../helpers/shared.ts';

const randomReceipt = () => ({ deliveryId: uuidText(uuidv7(Date.now(), randomBytes(16))), lease: 1 });

const fresh = shared(freshDatabase);

/** A query that explains each statement instead of running it, and the plans. @param usual of statements that name none */
function explaining(how = '', usual?: 'keyed', settings = 'set local jit to off') {
  const plans: string[] = [];
  const query: Query = async ({ text, values = [], plan = usual, place }) => {
    if (place === 'session') return [];
    const literals = values.map((value) => (value === null ? 'null' : pg.escapeLiteral(String(value))));
    await fresh.database.transaction(async (query) => {
      // EXPLAIN of the text itself plans for the values, whatever the mode of the connection.
      await query({ text: `${settings}; prepare explained as ${text}` });
      const execute = `execute explained ${literals.length > 0 ? `(${literals})` : ''}`;
      const rows = await query<{ 'QUERY PLAN': string }>({ text: `explain ${how} ${execute}` });
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      await query({ text: 'deallocate explained' });
    }, plan && { plan });
    return [];
  };
  const transaction = <T>(work: (query: Query) => Promise<T>) => work(query);
  return { plans, database: { ...fresh.database, query, transaction } };
}

test.each([
  ['one webhook', randomUUID(), false, []],
  ['several webhooks', null, false, []],
  ['many webhooks', null, true, []],
  ['one webhook, with an acknowledgement,', randomUUID(), false, [randomReceipt()]],
  ['several webhooks, with an acknowledgement,', null, false, [randomReceipt()]],
  ['many webhooks, with an acknowledgement,', null, true, [randomReceipt()]],
])(
  'a claim of %s looks each event up by its key, in the partitions of its days',
  async (...[, onlyWebhookId, hasManyWebhooks, acks]) => {
    const days = { from: new Date(Date.now() - DAY_MS).toISOString(), to: new Date(Date.now() + DAY_MS).toISOString() };
    const order = orderOf(randomUUID(), { max: 500, onlyWebhookId, hasManyWebhooks, days });
    // After a vacuum, Postgres knows that the table is empty.
    await fresh.sql('vacuum analyze deliveries_live');
    const { plans, database } = explaining('', 'keyed');
    await claimDeliveries(database, order, { acks });
    const [plan] = plans;
    expect(plan).toMatch(/using deliveries_claimable on deliveries_live/);
    // Once for the lease, and once for the acknowledgement.
    expect(plan!.match(/using deliveries_live_pkey on deliveries_live/g)).toHaveLength(1 + acks.length);
    const scans = plan!.split(/(?=->)/).filter((node) => /Scan .* on events/.test(node));
    expect(scans.length).toBeGreaterThan(0);
    for (const scan of scans) expect(scan).toMatch(/Index Cond: .*\(id = /);
    // An agent of many webhooks has as many subscriptions.
    if (hasManyWebhooks)
      expect(plan).toMatch(
        /using subscriptions_\w+ on subscriptions s\w* .*\n *Index Cond: (?=.*\(webhook_id = )(?=.*\(agent_id = )/,
      );
  },
);

test.each([
  ['one webhook', randomUUID(), false],
  ['several webhooks', null, false],
  ['many webhooks', null, true],
])('a claim of %s takes a lock on no events but those of its day', async (...[, onlyWebhookId, hasManyWebhooks]) => {
  const order = orderOf(randomUUID(), { max: 500, onlyWebhookId, hasManyWebhooks });
  const locked = await fresh.database.transaction(
    async (query) => {
      await claimDeliveries({ ...fresh.database, query }, order);
      return query<{ name: string }>({
        text: `
          select relid::text as name from pg_partition_tree('events') join pg_locks on relation = relid
          where pid = pg_backend_pid() and isleaf`,
      });
    },
    { plan: 'keyed' },
  );
  expect(locked).toEqual([{ name: `events_${order.days.from.slice(0, 10).replaceAll('-', '')}` }]);
});

test('what waits for an agent of many webhooks, and what it has under lease, is found without a look at each webhook', async () => {
  const { database } = fresh;
  const agentId = randomUUID();
  await database.query({
    text: `
      with agent as (
        insert into agents (id, name, lookup_id, secret_hash, max_leased) values ($1, 'wide', 'abcdefghijkl', sha256(''), 10) returning id
      ), hooks as (insert into webhooks (id, name) select gen_random_uuid(), 'w' || n from generate_series(1, 500) n returning id), subscribed as (
        insert into subscriptions (webhook_id, agent_id) select hooks.id, agent.id from hooks, agent
      )
      insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at, state)
      select gen_random_uuid(), h.id, $1, gen_random_uuid(), now(), 1, now() + make_interval(secs => n * 60), 'leased'
      from hooks h, generate_series(1, 4) n`,
    values: [agentId],
  });
  const { plans, database: explained } = explaining('(analyze)');
  await agentsWithWork(explained, [{ id: agentId, claimableFrom: '-infinity' }]);
  await readWaiting(explained, [agentId]);
  await readAgentActivity(explained, [agentId]);
  await readAgentActivity(explained, null);
  for (const plan of plans) {
    const scans = plan.split(/(?=->)/).filter((node) => /Scan.* on (deliveries_live|subscriptions)/.test(node));
    const read = scans.filter((node) => !/never executed/.test(node.split('\n')[0]!));
    expect(read.length).toBeGreaterThan(0);
    for (const node of read)
      expect(node).toMatch(/using (deliveries_due|subscriptions_filtered).* rows=(\d|10) loops=1\)/);
  }
});

test('the newest deliveries of an agent are found behind a flood of newer ones of others', async () => {
  const agentId = randomUUID();
  await fresh.sql(
    `
      insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at, state)
      select gen_random_uuid(), $1::uuid, case when n <= 1000 then $1::uuid else $2::uuid end, gen_random_uuid(), at, 1, at, 'pending'
      from generate_series(1, 9000) n, lateral (select now() - interval '1 day' + n * interval '1 second' as at) t`,
    agentId,
    randomUUID(),
  );
  await fresh.sql('vacuum analyze deliveries_live');
  const { plans, database } = explaining('(analyze)');
  await listDeliveries(database, { agentId }, null, 51);
  // One statement counts the recent deliveries, and one reads the page.
  expect(plans).toHaveLength(2);
  for (const plan of plans) {
    const scans = plan.split(/(?=->)/).filter((node) => /Scan.* on deliveries_live.*\(actual/.test(node));
    expect(scans).toHaveLength(2);
    for (const scan of scans) {
      expect(scan).toMatch(/rows=(51|204) loops=1\)/);
      expect(scan).not.toContain('Rows Removed by Filter');
    }
  }
});

test('the deliveries of one webhook are found in the primary key, from the newest on', async () => {
  const webhookId = randomUUID();
  await fresh.database.query({
    text: `
      insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at, state)
      select gen_random_uuid(), case when n % 3000 = 0 then $1::uuid else $2::uuid end, $2::uuid, gen_random_uuid(), at, 1, at, 'pending'
      from generate_series(1, 9000) n, lateral (select now() - interval '1 day' + n * interval '9 seconds' as at) t`,
    values: [webhookId, randomUUID()],
  });
  await fresh.database.query({ text: 'vacuum analyze deliveries_live' });
  const { plans, database } = explaining('(analyze)');
  await listDeliveries(database, { webhookId }, null, 51);
  await listDeliveries(database, { webhookId }, uuidAt(Date.now() - 2 * DAY_MS), 51);
  expect(plans.length).toBeGreaterThan(2);
  for (const plan of plans) {
    expect(plan).toMatch(/using deliveries_live_pkey on deliveries_live .*\n.*Index Cond: .*webhook_id/);
    // No partition of another day is planned.
    expect(plan).not.toMatch(/Rows Removed by Filter|Seq Scan|Sort {2}\(|Subplans Removed/);
  }
});

test.each(['dead', 'dismissed'] as const)(
  'the %s deliveries of a webhook are found by the index of the state, not among all that it has',
  async (state) => {
    const webhookId = randomUUID();
    await fresh.sql(
      `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
       select gen_random_uuid(), $1::uuid, $1, gen_random_uuid(), now(), 1, case when n % 1000 = 0 then $2 else 'done' end, now()
       from generate_series(1, 5000) n`,
      webhookId,
      state,
    );
    await fresh.sql('vacuum analyze deliveries');
    const { plans, database } = explaining('(analyze)');
    await listDeliveries(database, { webhookId, state }, null, 51);
    expect(plans[0]).toMatch(/Index Scan .*rows=5 loops=1/);
    expect(plans.join('\n')).not.toContain('Rows Removed by Filter');
  },
);

test('the slowest webhooks are looked up from the longest time on, until there are enough', async () => {
  await fresh.sql(`
      with added as (insert into webhooks (id, name) select gen_random_uuid(), 'w' || n from generate_series(1, 1000) n returning id)
      insert into latency (subject_id, step, at, stage, bucket, count)
      select id, 3600, date_trunc('hour', now()), 0, 40, 1 from added`);
  for (const table of ['webhooks', 'latency']) await fresh.sql(`vacuum analyze ${table}`);
  const { plans, database } = explaining('(analyze)');
  await readLatency(database, 1, Date.now());
  // Each hour gives its 375 longest times, of which 300 are compared.
  expect(plans[0]).toMatch(/using webhooks_pkey on webhooks t .* loops=300\)/);
});

type Read = (database: Database) => Promise<unknown>;
const revoked = (of: boolean | null) => ({ revoked: of, contains: null });

test.each<[string, RegExp, Read]>([
  ['new dead letters', /_finished_at_idx on deliveries_\d{8}/, (database) => readNewDeadLetters(database, Date.now())],
  [
    'dead letters by reason',
    /Index Only Scan Backward using deliveries_\d{8}_received_at_id_agent_id_\w+ on/,
    (database) => groupDeadLetters(database, { agentId: null, webhookId: null }),
  ],
  [
    'dead letters of many agents',
    /Index Only Scan Backward using deliveries_\d{8}_received_at_id_agent_id_\w+ on/,
    (database) => readDeadGroups(database, Array.from({ length: 201 }, randomUUID)),
  ],
  [
    'the numbers of deliveries of an agent',
    /using deliveries_due on deliveries_live/,
    // The call fails, because a statement that is explained returns no row.
    (database) => countDeliveries(database, { agentId: randomUUID() }).catch(() => null),
  ],
  ['revoked agents with deliveries', /using agents_revoked on/, readUndelivered],
  ['revoked agents', /using agents_revoked on/, (database) => listAgents(database, revoked(true), null, 50)],
  ['active agents', /using agents_newest on/, (database) => listAgents(database, revoked(false), null, 50)],
  [
    'the newest tokens',
    /using api_tokens_newest on/,
    (database) => listTokens(database, everyToken, { agentId: null, before: null }, 50),
  ],
])('%s are read by an index', async (...[, index, read]) => {
  await fresh.sql(`
      insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
      select gen_random_uuid(), id, id, id, now(), 1, 'dead', now() - n * interval '1 hour'
      from generate_series(1, 2000) n, lateral (select gen_random_uuid() as id where n > 0) g`);
  await fresh.sql('vacuum analyze deliveries');
  const off = ['seqscan', 'bitmapscan', 'sort'].map((name) => `set local enable_${name} to off`);
  const { plans, database } = explaining('', undefined, off.join('; '));
  await read(database);
  expect(plans[0]).toMatch(index);
});
