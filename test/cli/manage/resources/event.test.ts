import { beforeAll, expect, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import { weir as run } from '../../../helpers/command.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startTestApp);
const webhook = shared(() => app.addWebhook({ name: 'shop', secret: null, event_type_from: 'json:/type' }));
/** Newest first. */
const ids: string[] = [];
beforeAll(async () => {
  for (const body of ['{}', '{"type":"order.paid"}', '{"type":"order.created"}']) {
    const response = await fetch(webhook.url, { method: 'POST', body });
    ids.unshift(((await response.json()) as { id: string }).id);
  }
});

/** Output of a command that succeeds. */
async function weir(...args: string[]): Promise<string> {
  const { code, out, err } = await run(app, ...args);
  expect([code, err]).toEqual([0, '']);
  return out;
}

const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

test('event list shows the type first and the id last, and filters by type', async () => {
  const [head, first] = (await weir('event', 'list')).split('\n');
  expect(head).toMatch(/^TYPE +WEBHOOK .* ID$/);
  expect(first).toMatch(new RegExp(`^order\\.created +shop .* ${ids[0]}$`));
  const { items } = JSON.parse(await weir('event', 'list', '--type', 'order.paid', '--json'));
  expect(items.map(({ event_type }: { event_type: string }) => event_type)).toEqual(['order.paid']);
});

test('events are listed, exported and counted by every filter of the API', async () => {
  const headers = { 'content-type': 'text/Plain; charset=utf-8', 'x-shop': 'north', 'user-agent': 'shop' };
  const response = await fetch(webhook.url, { method: 'POST', body: 'a parcel', headers });
  const { id } = (await response.json()) as { id: string };
  const own = ['--content-type', 'text/plain', '--header', 'X-Shop: north', '--source', '127.0.0.0/8'];
  const filters = [...own, '--delivery-state', 'none', '--search', 'parcel', '--webhook', webhook.id];
  const listed = async (...args: string[]) =>
    JSON.parse(await weir('event', 'list', ...args, '--json')).items.map((event: { id: string }) => event.id);
  for (let from = 0; from < filters.length; from += 2)
    expect([filters[from], await listed(...filters.slice(from, from + 2))]).toEqual([
      filters[from],
      expect.arrayContaining([id]),
    ]);
  expect(await listed(...filters)).toEqual([id]);
  expect(linesOf(await weir('event', 'export', ...filters))).toMatchObject([{ id, body: 'a parcel' }]);
  for (const other of [
    ['--content-type', 'text/html'],
    ['--header', 'x-shop: south'],
    ['--source', '192.0.2.1'],
  ])
    expect(await listed(...other)).toEqual([]);
  expect(await listed('--delivery-state', 'pending')).toEqual([]);
  await app.database.query({ text: 'delete from events where id = $1', values: [id] });
});

test('event export writes NDJSON with bodies, or CSV, of the filtered events', async () => {
  expect(linesOf(await weir('event', 'export')).map(({ event_type, body }) => [event_type, body])).toEqual([
    ['order.created', '{"type":"order.created"}'],
    ['order.paid', '{"type":"order.paid"}'],
    [null, '{}'],
  ]);
  expect(linesOf(await weir('event', 'export', '--type', 'order.paid'))).toHaveLength(1);
  expect(linesOf(await weir('event', 'export', '--limit', '2'))).toHaveLength(2);
  const csv = (await weir('event', 'export', '--format', 'csv', '--webhook', webhook.id)).split('\r\n');
  expect(csv).toHaveLength(5);
  expect(csv[2]).toMatch(/^[^,]*,order\.paid,/);
  expect((await run(app, 'event', 'export', '--format', 'xml')).code).toBe(2);
});
