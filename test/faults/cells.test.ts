/** Cells on Postgres servers of their own: parts of one fail under load, and nothing answered 202 is lost. */
import { expect, onTestFinished, test } from 'vitest';
import { uuidv7Cell } from '../../server/store/ids.ts';
import { type Delivery, signIn, TestAgent } from '../helpers/agents.ts';
import { postgresPids } from '../helpers/processes.ts';
import { startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { kill } from '../helpers/weir.ts';
import { failoverTests } from './cells/failover.ts';
import { fullDiskTests } from './cells/full-disk.ts';
import { cellInstallation } from './cells/installation.ts';
import { moveTests } from './cells/moves.ts';
import { spoolTests } from './cells/spool.ts';

const installation = cellInstallation();
const { servers, webhooks, command, startLoad, cellsAway, expectNothingLost, restartServer } = installation;

test('kill -9 of the server of a cell: only its webhooks get 503, and it recovers without a restart', async () => {
  const senders = await startLoad();
  const { postmaster } = (await postgresPids(servers[0]!.dataDir))!;
  kill(postmaster, 'SIGKILL');
  await until(() => senders[1]!.refusals.some(({ status }) => status === 503));
  await Promise.all([senders[0]!.acceptMore(100), senders[2]!.acceptMore(100)]);
  await restartServer(0);
  await expectNothingLost(senders);
  expect([senders[0]!.refusals, senders[2]!.refusals]).toEqual([[], []]);
  expect(new Set(senders[1]!.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
  expect(senders.flatMap(({ losses }) => losses)).toEqual([]);
});

test('a cell whose server is frozen: the others go on, and it recovers', async () => {
  const senders = await startLoad();
  const { postmaster, backends } = (await postgresPids(servers[1]!.dataDir))!;
  const all = [postmaster, ...backends];
  onTestFinished(() => {
    for (const pid of all) kill(pid, 'SIGCONT');
  });
  for (const pid of all) kill(pid, 'SIGSTOP');
  await until(async () => (await cellsAway()).includes(2));
  await Promise.all([senders[0]!.acceptMore(100), senders[1]!.acceptMore(100)]);
  for (const pid of all) kill(pid, 'SIGCONT');
  await expectNothingLost(senders);
  expect([senders[0]!.refusals, senders[1]!.refusals]).toEqual([[], []]);
});

test('a cell whose server takes no writes: the others go on, and it recovers', async () => {
  const senders = await startLoad();
  const { database } = servers[0]!;
  const readOnly = async (value: string) => {
    await database.query({ text: `alter system set default_transaction_read_only = ${value}` });
    await database.query({ text: 'select pg_reload_conf()' });
  };
  onTestFinished(() => readOnly('off'));
  await readOnly('on');
  await until(() => senders[1]!.refusals.some(({ status }) => status === 503));
  await Promise.all([senders[0]!.acceptMore(100), senders[2]!.acceptMore(100)]);
  await readOnly('off');
  await expectNothingLost(senders);
  expect([senders[0]!.refusals, senders[2]!.refusals]).toEqual([[], []]);
});

test('eight clients claim and acknowledge the events of two cells through kills: none is missing', async () => {
  const given = webhooks.slice(1).flatMap(({ id }) => ['--webhook', id]);
  const { weir } = installation;
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
      await senders[place]!.acceptMore(500);
      kill((await postgresPids(servers[place]!.dataDir))!.postmaster, 'SIGKILL');
      await restartServer(place);
      await until(async () => (await cellsAway()).length === 0);
    }
    await Promise.all(senders.map((sender) => sender.acceptMore(300)));
    await Promise.all(senders.map((sender) => sender.stop()));
    const accepted = senders.flatMap((sender) => [...sender.accepted.keys()]);
    const left = 'select 1 from deliveries_live where agent_id = $1 limit 1';
    for (const { database } of servers)
      await until(async () => (await database.query({ text: left, values: [agent.id] })).length === 0);
    expect(accepted.filter((id) => !seen.has(id))).toEqual([]);
    for (const [place, sender] of senders.entries())
      expect(new Set([...sender.accepted.keys()].map(uuidv7Cell))).toEqual(new Set([place + 1]));
  } finally {
    done = true;
    await Promise.all(clients);
  }
});

fullDiskTests(installation);
moveTests(installation);
// The last ones: they start Weir with a spool, and add a cell that does not stay.
spoolTests(installation);
failoverTests(installation);
