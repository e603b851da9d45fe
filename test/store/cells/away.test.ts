/** A cell, or home, that does not answer. */
import { randomUUID } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { Agent } from '../../../server/deliver/client/index.ts';
import { Cell } from '../../../server/store/cells/cell.ts';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { readSelf } from '../../../server/store/queries/cells/cells.ts';
import { dropOldPartitions } from '../../../server/store/retention/drop-partitions.ts';
import { createDays, partitionName } from '../../../server/store/retention/partitions.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { seal } from '../../../server/store/secrets/seal.ts';
import { send, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { fakeTimers } from '../../helpers/clock.ts';
import { listening } from '../../helpers/ports.ts';
import { relayTo } from '../../helpers/relay.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { gate, until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(2));
let [home, first, second]: TestWebhook[] = [];
let agent: TestAgent;
beforeAll(async () => {
  [home, first, second] = [await app.webhookIn(0), await app.webhookIn(1), await app.webhookIn(2)];
  agent = await app.agentOf([home, first, second]);
  for (const webhook of [home, first, second]) await send(webhook);
});

const statusOf = async (webhook: TestWebhook) => {
  const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret }));
  const answer = (await response.json()) as { code?: string };
  return [response.status, ...(answer.code === undefined ? [] : [answer.code])];
};
const ready = async () => {
  const response = await fetch(`${app.url}/readyz`);
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  return { status: response.status, ...((await response.json()) as any) };
};
const api = (path: string) => app.administrator.api('GET', `/api/v1${path}`);

test('a cell that is away refuses its webhooks alone, is named, and comes back by itself', async () => {
  await app.cells[0]!.cutOff();
  await until(async () => (await ready()).cells_away !== undefined);
  expect(await statusOf(first!)).toEqual([503, 'database_unavailable']);
  expect(await statusOf(home!)).toEqual([202]);
  expect(await statusOf(second!)).toEqual([202]);
  expect(await ready()).toMatchObject({
    status: 'ready',
    checks: { database: 'ok', cells: 'degraded' },
    cells_away: [1],
  });
  const claimed = await agent.claim();
  expect(new Set(claimed.map(({ event }) => event.webhook_id))).toEqual(new Set([home!.id, second!.id]));
  expect((await agent.ack(claimed.map(({ receipt }) => receipt))).gone).toEqual([]);
  const { items } = (await api('/cells')).body;
  expect(items.map(({ away }: { away: string | null }) => away === null)).toEqual([true, false, true]);

  await app.cells[0]!.restore();
  await until(async () => (await statusOf(first!))[0] === 202);
  expect(await ready()).toMatchObject({ checks: { cells: 'ok' } });
  expect((await agent.claim()).length).toBe(2);
});

test('a change that a cell does not get waits for it, and is visible as waiting', async () => {
  const waiting = async () => (await api('/cells')).body.items.map((cell: { waiting: number }) => cell.waiting);
  await until(async () => (await waiting()).every((count: number) => count === 0));
  await app.cells[1]!.cutOff();
  await until(async () => (await ready()).cells_away !== undefined);
  await app.administrator.api('PATCH', `/api/v1/webhooks/${second!.id}`, { name: 'renamed meanwhile' });
  expect(await waiting()).toEqual([0, 0, 1]);
  await app.cells[1]!.restore();
  await until(async () => (await waiting())[2] === 0);
  const rows = await app.cells[1]!.sql('select name from webhooks where id = $1', second!.id);
  expect(rows).toEqual([{ name: 'renamed meanwhile' }]);
});

test('with home away, events of webhooks in other cells are stored and claimed', async () => {
  await until(async () => (await ready()).cells_away === undefined);
  for (const { receipt } of await agent.claim()) await agent.ack([receipt]);
  await app.cutOff();
  await until(async () => (await ready()).checks.database !== 'ok');
  expect(await statusOf(second!)).toEqual([202]);
  expect((await statusOf(home!))[0]).toBe(503);
  expect(await ready()).toMatchObject({ status: 'ready', checks: { database: 'degraded' } });
  const claimed = await agent.claim();
  expect(claimed.map(({ event }) => event.webhook_id)).toEqual([second!.id]);
  await app.restore();
  await until(async () => (await statusOf(home!))[0] === 202);
});

test('a cell that was restored from a backup is not used until an operator accepts it', async () => {
  const { database } = app.cells[0]!;
  // The marks that the primary wrote since the backup are gone, and so are the connections.
  await until(async () => {
    const [row] = await app.sql<{ mark: number }>('select mark::int as mark from cells where number = 1');
    return row!.mark > 0;
  });
  await app.cells[0]!.cutOff();
  await until(async () => (await ready()).cells_away !== undefined);
  await app.cells[0]!.restore();
  await until(() =>
    database.query({ text: 'update cell_self set mark = 0' }).then(
      () => true,
      () => false,
    ),
  );
  await until(async () => /restored/.test((await api('/cells')).body.items[1].away ?? ''));
  expect((await statusOf(first!))[0]).toBe(503);
  expect((await app.weir('cell', 'update', '1', '--accept-restored')).err).toBe('');
  await until(async () => (await statusOf(first!))[0] === 202);
});

/** Runs `work` while the first cell is away. */
async function whileAway(work: () => Promise<void>): Promise<void> {
  await until(async () => (await ready()).cells_away === undefined);
  await app.cells[0]!.cutOff();
  await until(async () => (await ready()).cells_away !== undefined);
  try {
    await work();
  } finally {
    await app.cells[0]!.restore();
  }
}

test.each([[], ['--max-leased', '100']])(
  'receipts of a cell that is away do not hold up those of others (%s %s)',
  async (...limit) => {
    const consumer = await app.agentOf([home!, first!, second!], ...limit);
    for (const webhook of [home!, first!, second!]) await send(webhook);
    const held = await consumer.claim();
    const ofCell = ({ event }: (typeof held)[number]) => event.webhook_id === first!.id;
    const away = held.filter(ofCell).map(({ receipt }) => receipt);
    const others = held.filter((delivery) => !ofCell(delivery)).map(({ receipt }) => receipt);
    expect([away.length, others.length]).toEqual([1, 2]);
    const receipts = [...others, ...away];
    await whileAway(async () => {
      await send(home!);
      expect(await consumer.extend(receipts, 3600)).toEqual({ done: others, gone: [], away });
      const { status, body } = await consumer.post('claim', { max: 10, ack: receipts });
      expect([status, body.settled]).toEqual([200, { done: others, gone: [], away }]);
      expect(body.deliveries.map(({ event }: (typeof held)[number]) => event.webhook_id)).toEqual([home!.id]);
      const [next] = body.deliveries;
      expect(await consumer.nack([next.receipt, ...away])).toEqual({ done: [next.receipt], gone: [], away });
    });
    await until(async () => (await consumer.ack(away)).away === undefined);
    expect(await consumer.ack(away)).toEqual({ done: away, gone: [] });
  },
);

test('the client library continues while the cell of an acknowledgement is away, and sends that again', async () => {
  const { id, credential } = await app.agentOf([home!, first!]);
  const consumer = new Agent({ url: app.url, credential, notify: () => {} });
  const stop = new AbortController();
  const begun: string[] = [];
  const { opened: held, open: end } = gate();
  const running = consumer.run(
    async ({ event }) => {
      begun.push(event.webhook_id);
      if (event.webhook_id === first!.id) await held;
    },
    { concurrency: 2, waitSeconds: 1, signal: stop.signal },
  );
  await send(first!);
  await until(() => begun.length === 1);
  await whileAway(async () => {
    end();
    for (let sent = 1; sent <= 3; sent++) {
      await send(home!);
      await until(() => begun.length === 1 + sent);
    }
  });
  const leased = async () => (await api(`/deliveries?state=leased&agent_id=${id}`)).body;
  await until(async () => {
    const { items, cells_away } = await leased();
    return cells_away === undefined && items.length === 0;
  });
  stop.abort();
  expect(await running).toEqual({ claimed: 4, done: 4, failed: 0, gone: 0 });
  consumer.close();
});

/** The first cell of the primary, which has accepted it. */
async function firstCell(): Promise<Cell> {
  await app.primary.load();
  const cell = app.primary.numbered(1);
  await until(() => cell.away === null);
  return cell;
}

test('an error of another database in a transaction of a cell does not take the cell away', async () => {
  const cell = await firstCell();
  const ofHome = new DatabaseUnavailable(new Error('home is lost'));
  await expect(cell.database.transaction(() => Promise.reject(ofHome))).rejects.toBe(ofHome);
  expect(cell.away).toBe(null);
});

test('a statement that reaches its own time limit does not take the cell away, and retention beside a backup ends', async () => {
  const cell = await firstCell();
  const oldMs = Date.now() - 100 * DAY_MS;
  await createDays(cell.database, [oldMs]);
  const day = partitionName('events', oldMs);
  await app.cells[0]!.database.transaction(async (query) => {
    await query({ text: `select from ${day}` });
    const { busy } = await dropOldPartitions(cell.database, 30, Date.now(), { detachTimeoutMs: 300 });
    expect([busy, cell.away]).toEqual([day, null]);
  });
  const waiting = `select from pg_stat_activity where query like 'alter table%detach%' and state = 'active'`;
  await until(async () => (await cell.database.query({ text: waiting })).length === 0);
  expect((await dropOldPartitions(cell.database, 30, Date.now())).partitions).toEqual([day]);
});

/** The first cell, to which there is one connection at a time. */
async function narrowCell(conninfo = app.cells[0]!.conninfo): Promise<Cell> {
  const self = await readSelf(app.database);
  const cell = Cell.open(
    { id: '', number: 1, name: 'busy', sealed: Buffer.alloc(0), state: 'active', mark: 0, createdAtMs: 0 },
    self!,
    { keys: [], open: (conninfo) => openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir' }) },
    { kind: 'postgres', conninfo, tables: '', node: null, fault: null },
  );
  onTestFinished(() => cell.close());
  return cell;
}

test('a server that answers nothing is noticed also when only statements with a limit of their own run', async () => {
  const relay = await relayTo(app.cells[0]!);
  onTestFinished(() => relay.close());
  const cell = await narrowCell(`${relay.url}&connect_timeout=2`);
  await cell.check();
  expect(cell.away).toBe(null);
  relay.freeze();
  const startMs = performance.now();
  const limited = () => cell.database.query({ text: 'select 1', timeoutMs: 500 }).catch(() => {});
  const running = [limited(), limited(), cell.check()];
  await until(() => cell.away !== null);
  expect(performance.now() - startMs).toBeLessThan(5_000);
  await Promise.all(running);
});

test('a wait for a connection that slow statements have does not take the cell away', async () => {
  const cell = await narrowCell();
  await cell.database.transaction(async (query) => {
    await query({ text: 'select 1' });
    fakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const waits = [cell.check(), expect(cell.database.query({ text: 'select 1' })).rejects.toThrow('timeout exceeded')];
    await vi.advanceTimersByTimeAsync(0);
    await vi.advanceTimersByTimeAsync(10_000);
    vi.useRealTimers();
    await Promise.all(waits);
    expect(cell.away).toBe(null);
  });
});

test('a cell that accepts connections and answers nothing does not delay the return of another one', async () => {
  const sockets: Socket[] = [];
  const port = await listening(createServer((socket) => sockets.push(socket)));
  const id = randomUUID();
  const [key] = derivedKeys(loadSecretsKeys(app.settings), 'cells');
  const conninfo = `host=127.0.0.1 port=${port} user=weir dbname=weir sslmode=disable gssencmode=disable connect_timeout=60`;
  await app.sql(
    `insert into cells (number, id, name, sealed, state) values (9, $1, 'silent', $2, 'active')`,
    id,
    seal(Buffer.from(conninfo), key!, id),
  );
  onTestFinished(async () => {
    await app.sql('delete from cells where id = $1', id);
    for (const socket of sockets) socket.destroy();
  });
  await app.primary.load();
  const cell = app.primary.numbered(2);
  await until(() => cell.away === null);
  await app.cells[1]!.cutOff();
  await until(() => cell.away !== null);
  const startMs = performance.now();
  await app.cells[1]!.restore();
  await until(() => cell.away === null);
  expect(performance.now() - startMs).toBeLessThan(5_000);
});
