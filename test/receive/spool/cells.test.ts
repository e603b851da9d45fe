/** The spool of an installation with cells. */
import { readdir } from 'node:fs/promises';
import { beforeEach, expect, test } from 'vitest';
import { createLog } from '../../../server/base/telemetry/log.ts';
import { spoolDrain } from '../../../server/operate/primary/spool.ts';
import { beginMove } from '../../../server/store/queries/cells/webhook-moves.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { spoolEvent } from './events.ts';

const app = shared(() => startCellApp(2));
let folder: string;
let drain: ReturnType<typeof spoolDrain>;
let waits: string[];
beforeEach(async () => {
  folder = temporaryDirectory();
  waits = [];
  const write = (line: string) => {
    const { event, reason } = JSON.parse(line) as { event: string; reason: string };
    if (event === 'spool_waiting') waits.push(reason);
  };
  const log = createLog({ write, flush: () => {}, dropped: () => 0 }, 'info', {});
  drain = spoolDrain({ folder, cells: app.primary, retentionDays: () => 30, log });
  return () => drain.stop();
});

const databaseOf = (cell: number) => (cell === 0 ? app.database : app.cells[cell - 1]!.database);
const isEmpty = async () => (await readdir(folder)).length === 0;

const spool = ({ id }: TestWebhook, cell: number, key?: string) => spoolEvent(folder, id, cell, key);

async function isStored(id: string, cell: number): Promise<boolean> {
  return (await databaseOf(cell).query({ text: 'select from events where id = $1', values: [id] })).length > 0;
}

async function sendKeyed({ url, secret }: TestWebhook, key: string): Promise<{ status: number; id: string }> {
  const response = await fetch(url, signedRequest({ secret, headers: { 'x-id': key } }));
  return { status: response.status, id: ((await response.json()) as { id: string }).id };
}

test('the events of a cell that is away hold up no others', async () => {
  const [home, first] = [await app.webhookIn(0), await app.webhookIn(1)];
  await app.cells[0]!.cutOff();
  await until(() => app.primary.numbered(1).away !== null);
  const away = await spool(first, 1);
  const here = await spool(home, 0);
  drain.start();
  await until(() => isStored(here, 0));
  await until(async () => (await readdir(folder)).length === 1);
  expect(await readdir(folder)).toEqual([expect.stringMatching(/-c1\.open$/)]);
  expect(waits).toEqual([expect.stringMatching(/^cell 1: /)]);
  await app.cells[0]!.restore();
  await until(isEmpty);
  expect(await isStored(away, 1)).toBe(true);
});

test('the key of an event that was spooled before its webhook moved is compared with those in the other cell', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const [repeated, known] = [await spool(webhook, 1, 'repeated'), await spool(webhook, 1, 'known')];
  await app.json('cell', 'move', webhook.id, '--to', '2');
  const repeat = await sendKeyed(webhook, 'repeated');
  expect(repeat.status).toBe(202);
  drain.start();
  await until(isEmpty);
  expect([await isStored(repeated, 1), await isStored(repeat.id, 2)]).toEqual([false, true]);
  expect([await isStored(known, 1), await sendKeyed(webhook, 'known')]).toEqual([true, { status: 200, id: known }]);
  expect(drain.total).toMatchObject({ stored: 1, duplicates: 1 });
});

test('an event with a key waits while its webhook moves', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const text = 'lock table webhooks in share row exclusive mode';
  const spooled = await app.primary.numbered(2).database.transaction(async (query) => {
    // The primary cannot copy to the target now, so the move stays open.
    await query({ text });
    await app.database.transaction((atHome) => beginMove(atHome, webhook.id, 2, Date.now()));
    const select = { text: 'select from webhooks where id = $1 and moving_from is not null', values: [webhook.id] };
    await until(async () => (await databaseOf(1).query(select)).length > 0);
    const id = await spool(webhook, 1, 'one');
    drain.start();
    await until(() => waits.length > 0);
    expect(waits).toEqual(['a webhook is moving to another cell']);
    return id;
  });
  await until(isEmpty);
  expect(await isStored(spooled, 1)).toBe(true);
  expect(await sendKeyed(webhook, 'one')).toEqual({ status: 200, id: spooled });
});

test('weir spool drain stores each event in its cell', async () => {
  const ids = [await spool(await app.webhookIn(0), 0), await spool(await app.webhookIn(1), 1)];
  await app.json('spool', 'drain', folder);
  expect(await isEmpty()).toBe(true);
  expect(await Promise.all(ids.map((id, cell) => isStored(id, cell)))).toEqual([true, true]);
});

/**
 * Lets the server of the cell answer what it likes, by these functions, in its new sessions and in those alone: its database finds the
 * functions of the schema `evil` before those of Postgres.
 */
async function lie(...functions: string[]): Promise<void> {
  const [cell] = app.cells;
  const run = (text: string) => cell!.database.query({ text });
  await run('drop schema if exists evil cascade; create schema evil');
  for (const text of functions) await run(text);
  await run(`alter database ${cell!.name} set search_path = evil, pg_catalog, public`);
  await cell!.cutOff();
  await until(() => app.primary.numbered(1).away !== null);
  await cell!.restore();
  await until(() => app.primary.numbered(1).away === null);
}

const spooled = (webhook: TestWebhook, cell: number, key: string) => spoolEvent(folder, webhook.id, cell, key);
const isTaken = async () => (await app.sql(`select where to_regclass('taken') is not null`)).length > 0;
const UNEXPECTED = 'the server does not answer as the database of Weir does';

test('what it says of moved webhooks is not run as SQL in another cell', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const key = '00"}]\') g (webhook uuid, key text, event uuid, at timestamptz)) select 1; create table taken (); --';
  const said = [{ webhook: webhook.id, event: webhook.id, at: '2026-01-01', cell: 0, moving: false, key }];
  await lie(
    'create function evil.skip(json, json) returns json language sql as $$ select $1 $$',
    `create function evil.lie(json) returns json language sql as $lie$ select $said$${JSON.stringify(said)}$said$::json $lie$`,
    `create aggregate evil.json_agg(json) (sfunc = evil.skip, stype = json, initcond = '[]', finalfunc = evil.lie)`,
  );
  await spooled(webhook, 1, 'a');
  drain.start();
  // The keys of this webhook are not in the cell that it names.
  await until(() => waits.length > 0);
  expect(waits).toEqual(['a webhook has left cell 0']);
  expect(await isTaken()).toBe(false);
});

test('what it says of the owners of keys is not run as SQL at home, and no event is lost', async () => {
  const webhook = await app.webhookIn(0, '--dedupe-header', 'x-id');
  await spooled(webhook, 0, 'a');
  await app.json('cell', 'move', webhook.id, '--to', '1');
  const said = `00000000-0000-0000-0000-000000000000}');create/**/table/**/taken();-- x`;
  await lie(
    `create function evil.lie(text, text) returns text language sql as $lie$ select $said$${said}$said$ $lie$`,
    'create operator evil.|| (leftarg = text, rightarg = text, function = evil.lie)',
  );
  drain.start();
  await until(() => waits.length > 0);
  expect(waits).toEqual([UNEXPECTED]);
  expect(await isTaken()).toBe(false);
  expect(await readdir(folder)).toHaveLength(1);
});
