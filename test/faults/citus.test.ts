/** A cell on a Citus cluster, as senders, agents and operators see it, also while Citus moves it and while its node is down. */

import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Settings } from '../../server/base/settings/read.ts';
import { DAY_MS } from '../../server/base/time/durations.ts';
import { inetBytes } from '../../server/model/address.ts';
import type { Cell } from '../../server/store/cells/cell.ts';
import { Cells } from '../../server/store/cells/cells.ts';
import { type Database, openDatabase, type Statement } from '../../server/store/connect/pool.ts';
import { uuidAt, uuidBytes, uuidv7, uuidv7Cell } from '../../server/store/ids.ts';
import { openCell } from '../../server/store/open.ts';
import { claimDeliveries } from '../../server/store/queries/claims/claim.ts';
import type { Claimed } from '../../server/store/queries/claims/order.ts';
import { agentsWithWork } from '../../server/store/queries/claims/room.ts';
import { type LeaseChange, settleDeliveries } from '../../server/store/queries/claims/settle.ts';
import { type KeyedRow, storeDeduped } from '../../server/store/queries/events/store-deduped.ts';
import { dropOldPartitions } from '../../server/store/retention/drop-partitions.ts';
import { createDays, partitionName } from '../../server/store/retention/partitions.ts';
import { derivedKeys, loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import { type Delivery, signIn, TestAgent } from '../helpers/agents.ts';
import { type CitusCluster, lackingForCitus, startCitus } from '../helpers/citus.ts';
import { orderOf } from '../helpers/claims.ts';
import { deliverInOrder } from '../helpers/key-order.ts';
import { signedRequest } from '../helpers/requests.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { ofTest } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';
import { ask, spawnWeir, startWeir, type Weir } from '../helpers/weir.ts';

const SCHEMA = 'weir_cell_1';

const lacking = lackingForCitus();
if (lacking !== '') console.warn(`The tests on Citus are skipped: this machine lacks ${lacking}.`);

describe.skipIf(lacking !== '')('a cell on Citus', () => {
  let citus: CitusCluster;
  let weir: Weir;
  let home: Database;
  let cells: Cells;
  let webhook: { id: string; path: string; secret: string };
  let atHome: { id: string; path: string; secret: string };

  /** A command on the machine of Weir. */
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  const command = async (...args: string[]): Promise<any> => {
    const settings = { DATABASE_URL: citus.url, DATA_DIR: weir.dataDir, SECRETS_KEY: someKey };
    const started = spawnWeir(settings, { command: [...args, '--json'] });
    const code = await started.ended;
    if (code !== 0) throw new Error(`weir ${args.join(' ')} ended with ${code}: ${started.stderr()}`);
    return JSON.parse(started.lines.join('\n') || 'null');
  };
  const addWebhook = async (cell: number, ...more: string[]) => {
    const secret = 'a secret between friends';
    const given = ['--name', `in ${cell} ${more.length}`, '--cell', String(cell), '--secret', secret, ...more];
    const { id } = await command('webhook', 'add', ...given);
    return { id, path: `/in/${id}`, secret };
  };
  const url = () => `http://127.0.0.1:${weir.port}`;
  const agentOf = async (name: string, ...webhookIds: string[]) => {
    const agent = await command('agent', 'add', '--name', name, ...webhookIds.flatMap((id) => ['--webhook', id]));
    return new TestAgent(url(), agent, await signIn({ url: url() }, agent.credential));
  };
  const send = async ({ path, secret }: typeof webhook, headers: Record<string, string> = {}) => {
    const request = signedRequest({ secret });
    const answer = await fetch(url() + path, { ...request, headers: { ...request.headers, ...headers } });
    return { status: answer.status, id: ((await answer.json()) as { id?: string }).id! };
  };
  const cellsAway = async () =>
    (JSON.parse((await ask(weir.port, '/readyz')).body) as { cells_away?: number[] }).cells_away ?? [];
  const openCells = () => {
    const keys = derivedKeys(loadSecretsKeys({ SECRETS_KEY: someKey } as Settings), 'cells');
    return new Cells({ home, conninfo: citus.url, keys, open: openCell });
  };
  const cell = (): Cell => cells.numbered(1);
  /** Every process, and this test, use the node that has the cell. */
  const cellIsBack = () => until(async () => (await cellsAway()).length === 0 && cell().away === null);

  beforeAll(async () => {
    citus = await startCitus();
    weir = await startWeir({ DATABASE_URL: citus.url, SECRETS_KEY: someKey, WORKERS: 2, DELIVERY_MAX_ATTEMPTS: 1000 });
    const added = await command('cell', 'add', '--citus', '--name', 'shard');
    expect(added).toMatchObject({ number: 1, kind: 'citus', state: 'active', away: null });
    home = openDatabase(citus.url, { connectionsMax: 2, applicationName: 'weir-primary', onError: () => {} });
    cells = openCells();
    await cells.load();
    cells.watch();
    webhook = await addWebhook(1);
    atHome = await addWebhook(0);
  });
  afterAll(async () => {
    await cells?.close();
    await home?.close();
    await weir?.stop();
    await citus?.stop();
  });

  test('stores events on its node, and an agent claims, extends, rejects and acknowledges them', async () => {
    const agent = await agentOf('reader', webhook.id, atHome.id);
    const sent = [await send(webhook), await send(atHome), await send(webhook)].map(({ id }) => id);
    expect(sent.map(uuidv7Cell)).toEqual([1, 0, 1]);
    const owner = await citus.ownerOf(SCHEMA);
    const stored = await owner.database.query({ text: `select id from ${cell().address.node!.events} order by id` });
    expect(stored).toEqual([{ id: sent[0] }, { id: sent[2] }]);
    const claimed = await agent.claim();
    expect(claimed.map(({ event }) => event.id).sort()).toEqual(sent.toSorted());
    const receipts = claimed.map(({ receipt }) => receipt);
    expect((await agent.extend(receipts, 60)).done).toHaveLength(3);
    expect((await agent.nack(receipts, { delay_seconds: 0 })).done).toHaveLength(3);
    const again = await agent.claim();
    expect((await agent.ack(again.map(({ receipt }) => receipt))).done).toHaveLength(3);
    expect(await agent.claim()).toEqual([]);
    const finished = await cell().database.query({ text: 'select state, attempts from deliveries_finished' });
    expect(finished).toEqual([
      { state: 'done', attempts: 2 },
      { state: 'done', attempts: 2 },
    ]);
    const listed = await command('event', 'list');
    expect(listed.items.map(({ id }: { id: string }) => id)).toEqual(sent.toReversed());
  });

  test('stores one event for a deduplication key, also of requests at the same time', async () => {
    const keyed = await addWebhook(1, '--dedupe-header', 'x-key');
    const answers = await Promise.all(Array.from({ length: 200 }, () => send(keyed, { 'x-key': 'the same' })));
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
  });

  test('delivers the events of a key one at a time, in order, to eight consumers who reject, lose and leave them', async () => {
    const ordered = await addWebhook(1);
    const agent = await agentOf('ordered', ordered.id);
    await command('agent', 'subscribe', agent.id, '--webhook', ordered.id, '--order-by', '/key');
    const place = { ...ordered, url: url() + ordered.path };
    const run = await deliverInOrder({ webhook: place, places: [agent], database: cell().database });
    expect(run).toEqual({ faults: [], left: [] });
  });

  test('keeps the order while Citus moves it, and frees the keys when the order ends', async () => {
    // A node as a release that did not order left it: the next process that starts makes what is missing.
    const node = (await citus.ownerOf(SCHEMA)).database;
    await node.transaction(async (query) => {
      await query({ text: 'set local citus.enable_manual_changes_to_shards to on' });
      await query({ text: `drop function ${SCHEMA}_node.pass_turn() cascade` });
    });
    const started = openCells();
    await started.load();
    await started.numbered(1).check();
    await started.close();
    const ordered = await addWebhook(1);
    const agent = await agentOf('ordered and moved', ordered.id);
    const subscribe = (order: string) =>
      command('agent', 'subscribe', agent.id, '--webhook', ordered.id, '--order-by', order);
    await subscribe('header:x-customer');
    const sent = async () => (await send(ordered, { 'x-customer': 'one' })).id;
    const ids = [await sent(), await sent()];
    const [first] = await agent.claim();
    expect(first!.event.id).toBe(ids[0]);
    for (let move = 0; move < 2; move++) {
      await citus.moveOn(SCHEMA);
      await until(async () => (await send(webhook)).status === 202);
      await cellIsBack();
      ids.push(await sent());
      expect(await agent.claim()).toEqual([]);
    }
    // A process that has not noticed the move reads the node that it knows.
    const held = async () => {
      const { items } = await command('delivery', 'list', '--held', '--agent', agent.id);
      return items.map(({ event_id }: { event_id: string }) => event_id).reverse();
    };
    await until(async () => (await held()).length === 3);
    expect(await held()).toEqual(ids.slice(1));
    await agent.nack([first!.receipt], { delay_seconds: 0 });
    const order: string[] = [];
    for (const _ of [1, 2]) {
      const [delivery, ...more] = await agent.claim({ wait_seconds: 20 });
      expect(more).toEqual([]);
      order.push(delivery!.event.id);
      await agent.ack([delivery!.receipt]);
    }
    expect(order).toEqual(ids.slice(0, 2));
    await subscribe('');
    expect((await agent.claim({ wait_seconds: 20 })).map(({ event }) => event.id)).toEqual(ids.slice(2));
  });

  test('runs the statements of ingest, claims and settlements on the node, not through the planner of Citus', async () => {
    const agent = await agentOf('planned', webhook.id);
    const plans: string[] = [];
    const explained: Database = {
      ...cell().database,
      query: async <Row extends object>(statement: Statement<Row>) => {
        const text = `explain (costs off) ${statement.text}`;
        const rows = await cell().database.query<{ 'QUERY PLAN': string }>({ text, values: statement.values ?? [] });
        plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
        return cell().database.query(statement);
      },
    };
    const [stored] = await storeDeduped(explained, [keyedRow(webhook.id)], 30, 1);
    expect(uuidv7Cell(stored!)).toBe(1);
    expect(await agentsWithWork(explained, [{ id: agent.id, claimableFrom: '-infinity' }])).toEqual([agent.id]);
    const order = orderOf(agent.id, { cell: 1 });
    const ofWebhook = { ...order, onlyWebhookId: webhook.id };
    const receiptsOf = (claimed: readonly Claimed[]) => claimed.map(({ id, lease }) => ({ deliveryId: id, lease }));
    const [receipt, ...more] = receiptsOf((await claimDeliveries(explained, ofWebhook)).claimed);
    expect(more).toEqual([]);
    const settlements: LeaseChange[] = [
      { kind: 'extend', leaseSeconds: 60 },
      { kind: 'nack', delaySeconds: 0, reason: null, attemptsMax: 10 },
    ];
    for (const settlement of settlements)
      expect((await settleDeliveries(explained, agent.id, [receipt!], settlement)).done.size).toBe(1);
    const acks = receiptsOf((await claimDeliveries(explained, order)).claimed);
    expect((await claimDeliveries(explained, ofWebhook, { acks })).settled.acknowledged).toHaveLength(1);
    expect((await settleDeliveries(explained, agent.id, acks, { kind: 'ack' })).done.size).toBe(1);
    expect(plans.length).toBeGreaterThanOrEqual(9);
    for (const plan of plans) expect(plan).not.toMatch(/Citus|Distributed/);
    const tables = new Set(plans.flatMap((plan) => plan.match(/\b(?:events|deliveries|dedupe_keys)\w*_\d{6,}\b/g)));
    expect([...tables].length).toBeGreaterThan(2);
  });

  test('retention drops old days, and deletes their finished deliveries', async () => {
    const oldMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - 40 * DAY_MS;
    const { database, tables } = cell();
    await createDays(tables, [oldMs]);
    const ids = [uuidAt(oldMs + 1), uuidAt(oldMs + 2)];
    const at = new Date(oldMs + 1).toISOString();
    await database.query({
      text: `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes) values ($1, $2, $3, '127.0.0.1', '', '', 0)`,
      values: [ids[0], randomUUID(), at],
    });
    await database.query({
      text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
             values ($1, $2, $2, $3, $4, 0, 'done', now())`,
      values: [ids[1], randomUUID(), ids[0], at],
    });
    const dropped = await dropOldPartitions(database, 30, Date.now(), { tables });
    expect(dropped).toEqual({
      partitions: [partitionName('events', oldMs)],
      unhandled: 0,
      keptDays: [],
      busy: null,
      unarchived: [],
    });
    for (const table of ['events', 'deliveries'])
      expect(await database.query({ text: `select from ${table} where received_at = $1`, values: [at] })).toEqual([]);
    expect((await send(webhook)).status).toBe(202);
  });

  test('refuses what is written on a node that it left', async () => {
    const { database } = await citus.ownerOf(SCHEMA);
    const left = cell().address.node!.events;
    await citus.moveOn(SCHEMA);
    const [still] = await database.query<{ exists: boolean }>({
      text: 'select to_regclass($1) is not null as exists',
      values: [left],
    });
    const writing = database.query({
      text: `insert into ${left} (id, webhook_id, received_at, source_ip, headers, body, bytes)
             values (gen_random_uuid(), gen_random_uuid(), now(), '127.0.0.1', '', '', 0)`,
    });
    await expect(writing).rejects.toMatchObject({ code: still!.exists ? '25006' : '42P01' });
    await until(async () => (await send(webhook)).status === 202);
    await cellIsBack();
  });

  test('Citus moves it five times under load: nothing that was answered 202 is lost', async () => {
    const agent = await agentOf('moved', webhook.id);
    const sender = await ofTest(startSender({ ...webhook, port: weir.port, lanes: 16, perSecondMax: 500 }));
    const claimed = new Set<string>();
    let isDone = false;
    const client = async () => {
      while (!isDone) {
        const answer = await agent.post('claim', { max: 200, lease_seconds: 5, wait_seconds: 1 }).catch(() => null);
        const deliveries: Delivery[] = answer?.status === 200 ? answer.body.deliveries : [];
        for (const { event } of deliveries) claimed.add(event.id);
        if (deliveries.length === 0) continue;
        await agent.post('ack', { receipts: deliveries.map(({ receipt }) => receipt) }).catch(() => null);
      }
    };
    const clients = [client(), client()];
    try {
      await sender.acceptMore(200);
      for (let move = 0; move < 5; move++) {
        await citus.moveOn(SCHEMA);
        await sender.acceptMore(200);
      }
      await sender.stop();
      await cellIsBack();
      expect(await missing(cell().database, sender.accepted)).toEqual([]);
      const left = 'select 1 from deliveries_live where agent_id = $1 limit 1';
      await until(async () => (await cell().database.query({ text: left, values: [agent.id] })).length === 0);
      expect([...sender.accepted.keys()].filter((id) => !claimed.has(id))).toEqual([]);
      expect(sender.losses).toEqual([]);
      expect([...new Set(sender.refusals.map(({ code }) => code))]).toEqual(
        sender.refusals.length === 0 ? [] : ['database_unavailable'],
      );
      console.info(`five moves: ${sender.accepted.size} accepted, ${sender.refusals.length} refused`);
    } finally {
      isDone = true;
      await Promise.all(clients);
    }
  });

  test('a node that is down: only its webhooks are refused, and it recovers', async () => {
    // The coordinator has home.
    while ((await citus.ownerOf(SCHEMA)) === citus.nodes[0]) await citus.moveOn(SCHEMA);
    await cellIsBack();
    const owner = await citus.ownerOf(SCHEMA);
    const senders = [webhook, atHome].map((each) =>
      startSender({ ...each, port: weir.port, lanes: 8, perSecondMax: 100 }),
    );
    onTestFinished(async () => {
      await Promise.all(senders.map((sender) => sender.stop()));
    });
    await Promise.all(senders.map((sender) => sender.acceptMore(50)));
    await owner.kill();
    await until(() => senders[0]!.refusals.some(({ status }) => status === 503));
    await senders[1]!.acceptMore(100);
    await owner.start();
    await cellIsBack();
    await Promise.all(senders.map((sender) => sender.acceptMore(50)));
    await Promise.all(senders.map((sender) => sender.stop()));
    expect(await missing(cell().database, senders[0]!.accepted)).toEqual([]);
    expect(senders[1]!.refusals).toEqual([]);
  });

  test('is named by list, and removed with its schema when it is empty', async () => {
    const { items } = await command('cell', 'list');
    expect(items.map(({ kind, away }: { kind: string; away: null }) => [kind, away])).toEqual([
      ['postgres', null],
      ['citus', null],
    ]);
    const second = await command('cell', 'add', '--citus');
    expect(second).toMatchObject({ number: 2, kind: 'citus', state: 'active' });
    const moved = await addWebhook(2);
    await command('cell', 'move', moved.id, '--to', '1');
    expect((await send(moved)).status).toBe(202);
    await command('cell', 'drain', '2');
    await command('cell', 'remove', '2');
    expect(await home.query({ text: `select from pg_namespace where nspname = 'weir_cell_2'` })).toEqual([]);
  });
});

/** An event with a key, as a serving process makes it. */
function keyedRow(webhookId: string): KeyedRow {
  const receivedAtMs = Date.now();
  const body = Buffer.from('{}');
  return {
    id: uuidv7(receivedAtMs, randomBytes(16), 1),
    webhookId: uuidBytes(webhookId),
    receivedAtMs,
    sourceIp: inetBytes('127.0.0.1'),
    headers: Buffer.from('a: b'),
    contentType: null,
    eventType: null,
    body,
    orderKeys: null,
    key: randomBytes(32),
  };
}
