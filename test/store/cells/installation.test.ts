/** Webhooks of one installation in three databases, as senders, agents and people see them. */
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { chooseCell } from '../../../server/manage/api/webhooks/webhook-changes.ts';
import { advisoryLocks } from '../../../server/store/advisory-locks.ts';
import { Cell } from '../../../server/store/cells/cell.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { uuidText, uuidv7, uuidv7Cell } from '../../../server/store/ids.ts';
import { openCell } from '../../../server/store/open.ts';
import { insertCell } from '../../../server/store/queries/cells/cells.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { seal } from '../../../server/store/secrets/seal.ts';
import { send, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { emptyDatabase, type FreshDatabase } from '../../helpers/postgres.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { gate, until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(2));
let webhooks: TestWebhook[];
let agent: TestAgent;
beforeAll(async () => {
  webhooks = [await app.webhookIn(0), await app.webhookIn(1), await app.webhookIn(2)];
  agent = await app.agentOf(webhooks);
});

test('an event is stored in the cell of its webhook, and its id says which', async () => {
  const ids = [];
  for (const webhook of webhooks) ids.push(await send(webhook));
  expect(ids.map(uuidv7Cell)).toEqual([0, 1, 2]);
  for (const [cell, database] of [app.database, ...app.cells.map((each) => each.database)].entries()) {
    const rows = await database.query<{ id: string }>({ text: 'select id from events' });
    expect(rows.map(({ id }) => id)).toEqual([ids[cell]]);
  }
});

test('an agent claims and acknowledges over all cells', async () => {
  const sent = [];
  for (const webhook of [...webhooks, ...webhooks]) sent.push(await send(webhook));
  const claimed = await agent.claim();
  expect(claimed.map(({ event }) => event.id)).toEqual(expect.arrayContaining(sent));
  const { done, gone } = await agent.ack(claimed.map(({ receipt }) => receipt));
  expect([done.length, gone.length]).toEqual([claimed.length, 0]);
  expect(await agent.claim()).toEqual([]);
});

test('one at a time, the cells take turns', async () => {
  for (const webhook of webhooks) for (let i = 0; i < 2; i++) await send(webhook);
  const cells = [];
  for (let i = 0; i < 6; i++) {
    const { event, receipt } = await agent.claimOne();
    cells.push(uuidv7Cell(event.id));
    await agent.ack([receipt]);
  }
  expect(new Set(cells.slice(0, 3)).size).toBe(3);
  expect(cells.slice(3)).toEqual(cells.slice(0, 3));
});

test('lists are in the order of time over all cells, and pages continue', async () => {
  const sent = [];
  for (let i = 0; i < 9; i++) sent.push(await send(webhooks[i % 3]!));
  const page = async (query: string) => (await app.administrator.api('GET', `/api/v1/events?${query}`)).body;
  const first = await page('limit=5');
  const second = await page(`limit=4&cursor=${first.next_cursor}`);
  expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(sent.toReversed());
});

/** The others are in test/faults/citus.test.ts. */
test('a cell on Citus is refused where the database is not on Citus, and nothing is left of it', async () => {
  const { code, err } = await app.weir('cell', 'add', '--citus');
  expect(code).toBe(2);
  expect(err).toContain('The database of the settings has no Citus extension');
  expect((await app.json('cell', 'list')).items).toHaveLength(3);
});

test.each([
  ['neither', []],
  ['both', ['--citus', '--database-stdin']],
])('a cell is on Citus or on another server: %s', async (_, options) => {
  const { code, err } = await app.weir('cell', 'add', ...options);
  expect([code, err]).toEqual([2, expect.stringContaining('--database-file, --database-stdin or --citus')]);
});

test('a cell that is being added is not in use, and is removed when that was interrupted', async () => {
  const { drop, conninfo } = await emptyDatabase();
  onTestFinished(drop);
  const id = randomUUID();
  const [key] = derivedKeys(loadSecretsKeys(app.settings), 'cells');
  const sealed = seal(Buffer.from(conninfo), key!, id);
  const number = await app.database.transaction((query) => insertCell(query, { id, name: 'interrupted', sealed }));
  const listed = async () => (await app.administrator.api('GET', '/api/v1/cells')).body.items;
  await until(async () => (await listed()).at(-1).state === 'adding');

  for (const path of ['events', 'deliveries', 'deliveries/counts', 'issues'])
    expect((await app.administrator.api('GET', `/api/v1/${path}`)).status).toBe(200);
  const there = uuidText(uuidv7(Date.now(), randomBytes(16), number));
  expect((await app.administrator.api('GET', `/api/v1/events/${there}`)).status).toBe(404);
  const sent = await send(webhooks[1]!);
  const claimed = await agent.claim();
  expect(claimed.map(({ event }) => event.id)).toContain(sent);
  await agent.ack(claimed.map(({ receipt }) => receipt));

  await app.json('cell', 'remove', String(number));
  expect((await listed()).map((cell: { number: number }) => cell.number)).toEqual([0, 1, 2]);
});

test.each(['ends', 'fails'])(
  'a cell is removed while it is added, and another one gets its number: when the adding %s, that one stays',
  async (how) => {
    const [slow, next] = [await emptyDatabase(), await emptyDatabase()];
    const add = async (database: FreshDatabase, name: string) => {
      const file = join(temporaryDirectory(), name);
      writeFileSync(file, database.conninfo, { mode: 0o600 });
      return app.weir('cell', 'add', '--database-file', file, '--name', name);
    };
    const listed = async () => (await app.json('cell', 'list')).items.slice(3);
    const { opened: released, open: release } = gate();
    // The migration of the cell waits for this lock.
    const holding = slow.database.transaction(async (query) => {
      await query({ text: `select pg_advisory_xact_lock(${advisoryLocks.schema})` });
      await released;
    });
    holding.catch(() => {});
    const adding = add(slow, 'slow');
    await until(async () => (await listed())[0]?.state === 'adding');
    await app.json('cell', 'remove', '3');
    expect(await add(next, 'next')).toMatchObject({ code: 0 });
    onTestFinished(async () => {
      release();
      await holding.catch(() => {});
      await app.json('cell', 'drain', '3');
      await app.json('cell', 'remove', '3');
      for (const { drop } of [slow, next]) await drop();
    });
    if (how === 'fails') await slow.cutOff();
    else release();
    const { code, err } = await adding;
    expect(code).toBe(2);
    expect(err).toMatch(how === 'fails' ? /connection/ : /The cell was removed while it was added\./);
    expect(await listed()).toMatchObject([{ number: 3, name: 'next', state: 'active', away: null }]);
  },
);

test('the size of a cell is known while one of its tables is locked', async () => {
  const chosen = await chooseCell(app.primary);
  const { database } = [app, ...app.cells][chosen]!;
  await database.transaction(async (query) => {
    const [day] = await query<{ name: string }>({
      text: `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass limit 1`,
    });
    await query({ text: `lock table ${day!.name} in access exclusive mode` });
    expect(await chooseCell(app.primary)).toBe(chosen);
  });
});

test('a cell on Citus whose tables are gone is away', async () => {
  const { drop, conninfo } = await emptyDatabase();
  const node = { host: '', port: 0, isCoordinator: true, events: '', deliveries: '', functions: '' };
  const row = {
    id: '',
    number: 3,
    name: 'moved',
    sealed: Buffer.alloc(0),
    state: 'active',
    mark: 0,
    createdAtMs: 0,
  } as const;
  const self = { installation: '', number: 0, mark: 0 };
  const cell = Cell.open(
    row,
    self,
    { keys: [], open: openCell },
    { kind: 'citus', conninfo, tables: conninfo, node, fault: null },
  );
  onTestFinished(async () => {
    await cell.close();
    await drop();
  });
  await expect(cell.database.query({ text: 'select from events' })).rejects.toThrow(DatabaseUnavailable);
  expect(cell.away).toContain('does not exist');
});
