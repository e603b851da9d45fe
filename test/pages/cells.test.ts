/** What pages show of cells, and the form that moves a webhook. */
import { beforeAll, expect, test } from 'vitest';
import { send } from '../helpers/agents.ts';
import { startCellApp } from '../helpers/cells.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(() => startCellApp(1));
const webhook = shared(() => app.webhookIn(0));
beforeAll(() => send(webhook));

const page = async (path: string) =>
  (await fetch(app.url + path, { headers: { cookie: app.administrator.cookie } })).text();

test('the page Status has a row for each cell, and says which is away', async () => {
  const [cell] = app.cells;
  const rows = async () =>
    /<table>(.*?)<\/table>/s.exec((await page('/status')).split('id="cells"')[1] ?? '')?.[1] ?? '';
  expect(await rows()).toMatch(/0 <b>home<\/b>.*1 <b>test_\w+<\/b>/s);
  await cell!.cutOff();
  await until(async () => (await rows()).includes('<span class="tag bad">away</span>'));
  await cell!.restore();
  await until(async () => !(await rows()).includes('away'));
});

test('an administrator moves a webhook on its page, others see where it is', async () => {
  const path = `/webhooks/${webhook.id}/settings`;
  expect(await page(path)).toMatch(/<dt>Cell<\/dt><dd>0 \(home\)/);
  const { location } = await app.administrator.submit(`/webhooks/${webhook.id}/move`, { cell: '1' });
  expect(await page(location!)).toContain('New events go to the other cell.');
  expect(await page(path)).toMatch(/<dt>Cell<\/dt><dd>1 \(test_/);
});

test('the page Status says until when a cell is draining', async () => {
  await send(webhook);
  const { cell } = await app.json('cell', 'drain', '1');
  const row = (await page('/status')).split('id="cells"')[1]!.replace(/<[^>]+>/g, '');
  const day = cell.empty_at.slice(0, 10);
  expect(row).toMatch(new RegExp(`draining\\s+until\\s+${day} 00:00:00 UTC`));
});
