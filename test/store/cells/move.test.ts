/** Webhooks that move between cells. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { advisoryLocks } from '../../../server/store/advisory-locks.ts';
import { copyKeys, finishMoves } from '../../../server/store/cells/move.ts';
import { uuidAt, uuidv7Cell } from '../../../server/store/ids.ts';
import { beginMove, endMove } from '../../../server/store/queries/cells/webhook-moves.ts';
import { send } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(2));

/** Sends a request with this id until it is stored or known. */
const sendKeyed = async (webhook: TestWebhook, key: string): Promise<string> => {
  for (;;) {
    const given = { secret: webhook.secret, headers: { 'x-id': key } };
    const response = await fetch(webhook.url, signedRequest(given));
    const { id } = (await response.json()) as { id: string };
    if (response.status === 202 || response.status === 200) return id;
    if (response.status !== 503) throw new Error(`the request was answered ${response.status}`);
  }
};

test('new events go to the other cell, older ones stay, and lists and agents see both', async () => {
  const webhook = await app.webhookIn(0);
  const agent = await app.agentOf([webhook]);
  const before = await send(webhook);
  await app.json('cell', 'move', webhook.id, '--to', '1');
  const after = await send(webhook);
  expect([before, after].map(uuidv7Cell)).toEqual([0, 1]);
  const { items } = await app.json('event', 'list', '--webhook', webhook.id);
  expect(items.map(({ id }: { id: string }) => id)).toEqual([after, before]);
  expect((await agent.claim()).map(({ event }) => event.id).sort()).toEqual([before, after].sort());
});

test('a repeated request is one event, before, during and after moves', async () => {
  const webhook = await app.webhookIn(0, '--dedupe-header', 'x-id');
  const keys = Array.from({ length: 20 }, () => randomUUID());
  const known = new Map<string, Set<string>>(keys.map((key) => [key, new Set()]));
  let moving = true;
  const senders = Array.from({ length: 4 }, async () => {
    while (moving) for (const key of keys) known.get(key)!.add(await sendKeyed(webhook, key));
  });
  for (const to of ['1', '2', '0', '2']) await app.json('cell', 'move', webhook.id, '--to', to);
  moving = false;
  await Promise.all(senders);
  for (const key of keys) known.get(key)!.add(await sendKeyed(webhook, key));
  expect([...known.values()].map(({ size }) => size)).toEqual(keys.map(() => 1));
});

test('one key a thousand times at once, during a move, is one event', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const key = randomUUID();
  const sent = Array.from({ length: 1_000 }, () => sendKeyed(webhook, key));
  await app.json('cell', 'move', webhook.id, '--to', '2');
  expect(new Set(await Promise.all(sent)).size).toBe(1);
  const { items } = await app.json('event', 'list', '--webhook', webhook.id);
  expect(items).toHaveLength(1);
});

test('a move that was interrupted is finished by the primary, and no key is stored twice', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const id = await sendKeyed(webhook, 'known');
  // What a command does before it is killed.
  await copyKeys(app.primary.numbered(1), app.primary.numbered(2), webhook.id, null);
  await app.database.transaction((query) => beginMove(query, webhook.id, 2, Date.now()));
  await until(async () => (await movingFrom(webhook)) === null);
  expect(await sendKeyed(webhook, 'known')).toBe(id);
  expect(uuidv7Cell(await sendKeyed(webhook, 'new'))).toBe(2);
});

test('a key that was stored since the copy began is copied, also that of an old event of a spool', async () => {
  const [from, to] = [app.primary.numbered(1), app.primary.numbered(2)];
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const retentionDays = app.settings.RETENTION_DAYS;
  const insert = (key: string, storedMs: number) =>
    from.database.query({
      text: `insert into dedupe_keys (webhook_id, key, event_id, expires_at) values ($1, $2, $3, $4)`,
      values: [
        webhook.id,
        Buffer.from(key.padEnd(32)),
        uuidAt(Date.now() - DAY_MS),
        new Date(storedMs + retentionDays * DAY_MS).toISOString(),
      ],
    });
  await insert('before', Date.now() - DAY_MS);
  await insert('drained', Date.now());
  await copyKeys(from, to, webhook.id, { ms: Date.now() - 1_000, retentionDays });
  const rows = await to.database.query<{ key: Buffer }>({
    text: 'select key from dedupe_keys where webhook_id = $1',
    values: [webhook.id],
  });
  expect(rows.map(({ key }) => key.toString().trim())).toEqual(['drained']);
});

test('while a webhook moves, neither cell stores an event with a key', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  await app.primary.numbered(2).database.transaction(async (query) => {
    // The primary cannot copy to the target now, so the move stays open. Statements that store events do not wait.
    await query({ text: `select pg_advisory_xact_lock(${advisoryLocks.copies})` });
    await app.database.transaction((atHome) => beginMove(atHome, webhook.id, 2, Date.now()));
    const { database } = app.primary.numbered(1);
    await until(async () => {
      const [row] = await database.query<{ cell: number }>({
        text: 'select cell from webhooks where id = $1',
        values: [webhook.id],
      });
      return row!.cell === 2;
    });
    const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret, headers: { 'x-id': 'one' } }));
    expect(response.status).toBe(503);
  });
  await finishMoves(app.primary, app.settings.RETENTION_DAYS).catch(() => {});
  expect(uuidv7Cell(await sendKeyed(webhook, 'one'))).toBe(2);
});

const movingFrom = async ({ id }: TestWebhook) => {
  const text = 'select moving_from from webhooks where id = $1';
  const [row] = await app.sql<{ moving_from: number | null }>(text, id);
  return row!.moving_from;
};

test('a move to a cell that does not answer holds up no other move, and can be put back', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const other = await app.webhookIn(1);
  const known = await sendKeyed(webhook, 'known');
  await app.cells[1]!.cutOff();
  await until(() => app.primary.numbered(2).away !== null);
  await app.database.transaction((query) => beginMove(query, webhook.id, 2, Date.now()));
  await app.json('cell', 'move', other.id, '--to', '0');
  expect(uuidv7Cell(await send(other))).toBe(0);
  const again = await app.weir('cell', 'move', webhook.id, '--to', '2');
  expect(again).toMatchObject({ code: 1, err: expect.stringContaining('Weir finishes the move') });
  await app.json('cell', 'move', webhook.id, '--to', '1');
  expect(await sendKeyed(webhook, 'known')).toBe(known);
  expect(uuidv7Cell(await sendKeyed(webhook, 'new'))).toBe(1);
  await app.cells[1]!.restore();
  await until(() => app.primary.numbered(2).away === null);
});

test('the end of a move that is over does not end the next one', async () => {
  const webhook = await app.webhookIn(1);
  await app.cells[1]!.cutOff();
  await until(() => app.primary.numbered(2).away !== null);
  const [first, second] = [Date.now() - 1_000, Date.now()];
  const begin = (sinceMs: number) => app.database.transaction((query) => beginMove(query, webhook.id, 2, sinceMs));
  await begin(first);
  await app.json('cell', 'move', webhook.id, '--to', '1');
  await begin(second);
  await endMove(app.database, { id: webhook.id, from: 1, to: 2, sinceMs: first });
  expect(await movingFrom(webhook)).toBe(1);
  await app.cells[1]!.restore();
  await until(async () => (await movingFrom(webhook)) === null);
  // The serving process finds out by itself that the cell is back.
  expect(uuidv7Cell(await sendKeyed(webhook, 'back'))).toBe(2);
});

test('a drained cell gives its webhooks away, and is removed when it is empty', async () => {
  const webhook = await app.webhookIn(1);
  await send(webhook);
  const drained = await app.json('cell', 'drain', '1');
  expect(drained.cell).toMatchObject({ number: 1, state: 'draining', webhooks: 0 });
  expect(drained.cell.empty_at).not.toBeNull();
  expect((await app.weir('cell', 'list')).out).toContain(`draining until ${drained.cell.empty_at}`);
  expect(uuidv7Cell(await send(webhook))).not.toBe(1);
  const early = await app.weir('cell', 'remove', '1');
  expect(early).toMatchObject({ code: 1, err: expect.stringContaining('drain it') });
  // Retention.
  await app.cells[0]!.sql('truncate events; truncate deliveries');
  expect((await app.weir('cell', 'list')).out).toMatch(/ drained .* ~0 +[\d.]+ MB/);
  expect((await app.weir('cell', 'remove', '1')).out).toContain('removed');
  const { items } = await app.json('cell', 'list');
  expect(items.map(({ number }: { number: number }) => number)).toEqual([0, 2]);
});
