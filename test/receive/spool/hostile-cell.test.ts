/** The server of a cell that answers what it likes: its database finds the functions of the schema `evil` before those of Postgres. */
import { readdir } from 'node:fs/promises';
import { beforeEach, expect, test } from 'vitest';
import { createLog } from '../../../server/base/telemetry/log.ts';
import { spoolDrain } from '../../../server/operate/primary/spool.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { spoolEvent } from './events.ts';

const app = shared(() => startCellApp(1));
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

/** Lets the server of the cell answer by these functions in its new sessions, and in those alone. */
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
const isTaken = async () =>
  (await app.database.query({ text: `select where to_regclass('taken') is not null` })).length > 0;
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
