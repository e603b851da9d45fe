import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestApp, type TestWebhook } from '../helpers/app.ts';
import { weir as run } from '../helpers/command.ts';

let app: TestApp;
let webhook: TestWebhook;
/** Newest first. */
const ids: string[] = [];
beforeAll(async () => {
  app = await startTestApp();
  webhook = await app.addWebhook({ secret: null, event_type_from: 'json:/type' });
  for (const body of ['{}', '{"type":"order.paid"}', '{"type":"order.created"}']) {
    const response = await fetch(webhook.url, { method: 'POST', body });
    ids.unshift(((await response.json()) as { id: string }).id);
  }
});
afterAll(() => app.stop());

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
  expect(first).toMatch(new RegExp(`^order\\.created +${webhook.id} .* ${ids[0]}$`));
  const { items } = JSON.parse(await weir('event', 'list', '--type', 'order.paid', '--json'));
  expect(items.map(({ event_type }: { event_type: string }) => event_type)).toEqual(['order.paid']);
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
