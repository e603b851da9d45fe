/** Cells on Postgres servers of their own: parts of one fail under load, and nothing answered 202 is lost. */
import { statfs } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { Check } from '../../server/model/check.ts';
import { uuidv7Cell } from '../../server/store/ids.ts';
import { type Delivery, signIn, TestAgent } from '../helpers/agents.ts';
import { postgresPids } from '../helpers/processes.ts';
import { startSender } from '../helpers/sender.ts';
import { canMount, resizeDisk, skippedNote } from '../helpers/small-disk.ts';
import { until } from '../helpers/wait.ts';
import { kill } from '../helpers/weir.ts';
import { failoverTests } from './cells/failover.ts';
import { cellInstallation, DISK_SIZE } from './cells/installation.ts';
import { moveTests } from './cells/moves.ts';
import { spoolTests } from './cells/spool.ts';
import { frozen, readOnly } from './kinds.ts';

const LEFT_BYTES = 4_000_000;

const installation = cellInstallation();
const { servers, webhooks, command, cellsAway, restartServer } = installation;

installation.test('kill -9 of the server of a cell: only its webhooks get 503, and it recovers without a restart', {
  cell: 1,
  async make({ dataDir }) {
    kill((await postgresPids(dataDir))!.postmaster, 'SIGKILL');
    return () => restartServer(0);
  },
  during: ({ refusals }) => until(() => refusals.length > 0),
});

installation.test('a cell whose server is frozen: the others go on, and it recovers', {
  cell: 2,
  async make({ dataDir }) {
    const { postmaster, backends } = (await postgresPids(dataDir))!;
    return frozen([postmaster, ...backends]);
  },
  during: () => until(async () => (await cellsAway()).includes(2)),
});

installation.test('a cell whose server takes no writes: the others go on, and it recovers', {
  cell: 1,
  make: ({ database }) => readOnly(database),
  during: ({ refusals }) => until(() => refusals.length > 0),
});

installation.test(`a cell whose disk is full${skippedNote}: only its webhooks get 503, it is named, and it recovers`, {
  // Needs root.
  possible: canMount,
  cell: 1,
  load: { bodyBytes: 100_000 },
  async make({ dataDir }) {
    const { blocks, bfree, bsize } = await statfs(dataDir);
    resizeDisk(dataDir, String((blocks - bfree) * bsize + LEFT_BYTES));
    return () => resizeDisk(dataDir, DISK_SIZE);
  },
  async during({ refusals }) {
    const { weir } = installation;
    await until(() => refusals.length > 50);
    await until(async () => (await cellsAway()).includes(1));
    const reasons = () => weir.events('cell_away').map(({ cell, reason }) => `${cell} ${reason}`);
    await until(() => reasons().some((reason) => /^1 its disk is full \(53100: /.test(reason)));
    const doctor = installation.spawn('doctor');
    await doctor.ended;
    const { checks } = JSON.parse(doctor.lines.join('\n')) as { checks: Check[] };
    expect(checks.filter(({ name, state }) => name === 'cell' && state === 'problem')).toMatchObject([
      { finding: expect.stringMatching(/^cell 1 \(.*its disk is full/), fix: expect.stringContaining('free space') },
    ]);
    // Postgres itself went on, without a restart.
    expect(await postgresPids(servers[0]!.dataDir)).not.toBeNull();
    for (const event of ['request_failed', 'crash', 'process_exited']) expect(weir.events(event)).toEqual([]);
  },
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

moveTests(installation);
// The last ones: they start Weir with a spool, and add a cell that does not stay.
spoolTests(installation);
failoverTests(installation);
