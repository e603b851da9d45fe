/** Cells on Postgres servers of their own: one is killed, frozen or read-only under load, and nothing answered 202 is lost. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type EmbeddedPostgres, joinEmbeddedPostgres } from '../../server/store/embedded/join.ts';
import { uuidv7Cell } from '../../server/store/ids.ts';
import { type Database, openDatabase } from '../../server/store/pool.ts';
import { type Delivery, signIn, TestAgent } from '../helpers/agents.ts';
import { postgresPids } from '../helpers/processes.ts';
import { missing, type Sender, startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { ask, kill, makeDataDir, PATIENCE_MS, spawnWeir, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 240_000;
const eventually = { timeoutMs: PATIENCE_MS };
const CELLS = [1, 2] as const;

interface Server {
  dataDir: string;
  postgres: EmbeddedPostgres;
  database: Database;
}

let weir: Weir;
const servers: Server[] = [];
const webhooks: { id: string; path: string; secret: string }[] = [];

/** A command on the machine of Weir. */
// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
async function command(...args: string[]): Promise<any> {
  const started = spawnWeir({ DATA_DIR: weir.dataDir, WORKERS: 2 }, { command: [...args, '--json'] });
  const code = await started.ended;
  if (code !== 0) throw new Error(`weir ${args.join(' ')} ended with ${code}: ${started.stderr()}`);
  return JSON.parse(started.lines.join('\n'));
}

async function startServer(dataDir: string): Promise<Server> {
  const postgres = await joinEmbeddedPostgres({ dataDir, maxConnections: 100, log: () => {} });
  const pool = { connectionsMax: 2, applicationName: 'weir-test', onError: () => {} };
  return { dataDir, postgres, database: openDatabase(postgres.conninfo, pool) };
}

beforeAll(async () => {
  weir = await startWeir();
  for (const number of CELLS) {
    servers.push(await startServer(await makeDataDir()));
    const file = join(weir.dataDir, `cell-${number}`);
    await writeFile(file, servers.at(-1)!.postgres.conninfo);
    await command('cell', 'add', '--database-file', file);
  }
  const secret = 'a secret between friends';
  for (const cell of [0, ...CELLS]) {
    const given = ['--name', `in ${cell}`, '--cell', String(cell), '--secret', secret];
    const { id } = await command('webhook', 'add', ...given);
    webhooks.push({ id, path: `/in/${id}`, secret });
  }
}, TEST_MS);
afterAll(async () => {
  for (const { database } of servers) await database.close();
  await weir.stop();
  for (const { postgres, dataDir } of servers) {
    await postgres.leave();
    await rm(dataDir, { recursive: true, force: true });
  }
}, TEST_MS);

/** A sender to a webhook in each server, home first. */
async function startLoad(): Promise<Sender[]> {
  const senders = webhooks.map((webhook) => startSender({ ...webhook, port: weir.port, lanes: 8, perSecondMax: 100 }));
  onTestFinished(async () => {
    await Promise.all(senders.map((sender) => sender.stop()));
  });
  await Promise.all(senders.map((sender) => sender.acceptMore(100)));
  return senders;
}

async function cellsAway(): Promise<number[]> {
  const { body } = await ask(weir.port, '/readyz');
  return (JSON.parse(body) as { cells_away?: number[] }).cells_away ?? [];
}

/** The senders go on after the fault; then each event is in the server of its webhook. */
async function expectNothingLost(senders: readonly Sender[]): Promise<void> {
  await until(async () => (await cellsAway()).length === 0, eventually);
  await Promise.all(senders.map((sender) => sender.acceptMore(100)));
  await Promise.all(senders.map((sender) => sender.stop()));
  const databases = [weir.database, ...servers.map(({ database }) => database)];
  for (const [place, sender] of senders.entries()) {
    expect(await missing(databases[place]!, sender.accepted)).toEqual([]);
    expect(new Set([...sender.accepted.keys()].map(uuidv7Cell))).toEqual(new Set([place]));
  }
}

test('kill -9 of the server of a cell: only its webhooks get 503, and it recovers without a restart', {
  timeout: TEST_MS,
}, async () => {
  const senders = await startLoad();
  const { postmaster } = (await postgresPids(servers[0]!.dataDir))!;
  kill(postmaster, 'SIGKILL');
  await until(() => senders[1]!.refusals.some(({ status }) => status === 503), eventually);
  await Promise.all([senders[0]!.acceptMore(100), senders[2]!.acceptMore(100)]);
  const again = await startServer(servers[0]!.dataDir);
  await servers[0]!.database.close();
  await servers[0]!.postgres.leave();
  servers[0] = again;
  await expectNothingLost(senders);
  expect([senders[0]!.refusals, senders[2]!.refusals]).toEqual([[], []]);
  expect(new Set(senders[1]!.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
  expect(senders.flatMap(({ losses }) => losses)).toEqual([]);
});

test('a cell whose server is frozen: the others go on, and it recovers', { timeout: TEST_MS }, async () => {
  const senders = await startLoad();
  const { postmaster, backends } = (await postgresPids(servers[1]!.dataDir))!;
  const all = [postmaster, ...backends];
  onTestFinished(() => {
    for (const pid of all) kill(pid, 'SIGCONT');
  });
  for (const pid of all) kill(pid, 'SIGSTOP');
  await until(async () => (await cellsAway()).includes(2), eventually);
  await Promise.all([senders[0]!.acceptMore(100), senders[1]!.acceptMore(100)]);
  for (const pid of all) kill(pid, 'SIGCONT');
  await expectNothingLost(senders);
  expect([senders[0]!.refusals, senders[1]!.refusals]).toEqual([[], []]);
});

test('a cell whose server takes no writes: the others go on, and it recovers', { timeout: TEST_MS }, async () => {
  const senders = await startLoad();
  const { database } = servers[0]!;
  const readOnly = async (value: string) => {
    await database.query({ text: `alter system set default_transaction_read_only = ${value}` });
    await database.query({ text: 'select pg_reload_conf()' });
  };
  onTestFinished(() => readOnly('off'));
  await readOnly('on');
  await until(() => senders[1]!.refusals.some(({ status }) => status === 503), eventually);
  await Promise.all([senders[0]!.acceptMore(100), senders[2]!.acceptMore(100)]);
  await readOnly('off');
  await expectNothingLost(senders);
  expect([senders[0]!.refusals, senders[2]!.refusals]).toEqual([[], []]);
});

test('eight clients claim and acknowledge the events of two cells through kills: none is missing', {
  timeout: TEST_MS,
}, async () => {
  const given = webhooks.slice(1).flatMap(({ id }) => ['--webhook', id]);
  const agent = await command('agent', 'add', '--name', 'eight', ...given);
  const url = `http://127.0.0.1:${weir.port}`;
  const client = new TestAgent(url, agent, await signIn({ url }, agent.credential));
  const senders = webhooks
    .slice(1)
    .map((webhook) => startSender({ ...webhook, port: weir.port, lanes: 16, perSecondMax: Infinity }));
  const seen = new Set<string>();
  let done = false;
  const clients = Array.from({ length: 8 }, async () => {
    while (!done) {
      const answer = await client.post('claim', { max: 200, lease_seconds: 5, wait_seconds: 1 }).catch(() => null);
      const deliveries: Delivery[] = answer?.status === 200 ? answer.body.deliveries : [];
      if (deliveries.length === 0) continue;
      for (const { event } of deliveries) seen.add(event.id);
      // Whether an acknowledgement without an answer counts is not known.
      await client.post('ack', { receipts: deliveries.map(({ receipt }) => receipt) }).catch(() => null);
    }
  });
  try {
    for (const place of [0, 1]) {
      await senders[place]!.acceptMore(1_500);
      kill((await postgresPids(servers[place]!.dataDir))!.postmaster, 'SIGKILL');
      const again = await startServer(servers[place]!.dataDir);
      await servers[place]!.database.close();
      await servers[place]!.postgres.leave();
      servers[place] = again;
      await until(async () => (await cellsAway()).length === 0, eventually);
    }
    await Promise.all(senders.map((sender) => sender.acceptMore(1_000)));
    await Promise.all(senders.map((sender) => sender.stop()));
    const accepted = senders.flatMap((sender) => [...sender.accepted.keys()]);
    const left = 'select 1 from deliveries_live where agent_id = $1 limit 1';
    for (const { database } of servers)
      await until(async () => (await database.query({ text: left, values: [agent.id] })).length === 0, eventually);
    expect(accepted.filter((id) => !seen.has(id))).toEqual([]);
    for (const [place, sender] of senders.entries())
      expect(new Set([...sender.accepted.keys()].map(uuidv7Cell))).toEqual(new Set([place + 1]));
  } finally {
    done = true;
    await Promise.all(clients);
  }
});
