/** The metrics page of an installation with cells: the metrics of a database have the number of the cell. */
import { beforeAll, expect, test } from 'vitest';
import { cellMetrics } from '../../../server/base/telemetry/metric-table.ts';
import { figureReader } from '../../../server/operate/primary/families.ts';
import { MetricsPage } from '../../../server/operate/primary/metrics-page.ts';
import type { CellList } from '../../../server/store/cells/cells-database.ts';
import { send, type TestAgent } from '../../helpers/agents.ts';
import { startTestApp, type TestApp, type TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(1));
let webhooks: TestWebhook[];
let agent: TestAgent;
beforeAll(async () => {
  webhooks = [await app.webhookIn(0), await app.webhookIn(1)];
  agent = await app.agentOf(webhooks);
});

function pageOf({ app: served }: TestApp, cells: Pick<CellList, 'all'>): MetricsPage {
  return new MetricsPage({
    collect: async () => [await served.metrics()],
    readFigures: figureReader(cells),
    ownFamilies: async () => [],
    onFailure: (error) => expect.fail(error.message),
  });
}
/** Value of each series of a metric, by cell. @param others labels that follow that of the cell */
const byCell = (text: string, name: string, others = '') =>
  Object.fromEntries(
    text.split('\n').flatMap((line) => {
      const found = new RegExp(`^${name}\\{(.*)\\} (\\S+)$`).exec(line);
      if (found === null || !found[1]!.includes(others)) return [];
      return [[/\bcell="(\d+)"/.exec(found[1]!)?.[1] ?? 'none', Number(found[2])]];
    }),
  );

test('events, commits, deliveries and sizes are reported by cell', async () => {
  await send(webhooks[0]!);
  await send(webhooks[1]!);
  await send(webhooks[1]!);
  const page = pageOf(app, app.primary);
  // The first scrape waits for the figures of the databases for a second only.
  const text = await until(async () => {
    const rendered = await page.render();
    return rendered.includes('weir_deliveries_pending{') && rendered;
  });
  expect(byCell(text, 'weir_events_committed_total')).toEqual({ 0: 1, 1: 2 });
  expect(byCell(text, 'weir_commit_seconds_count')).toEqual({ 0: 1, 1: 2 });
  expect(byCell(text, 'weir_queue_events')).toEqual({ 0: 0, 1: 0 });
  expect(byCell(text, 'weir_deliveries_pending', agent.id)).toEqual({ 0: 1, 1: 2 });
  for (const size of ['weir_database_bytes', 'weir_database_day_bytes'])
    expect(Object.keys(byCell(text, size))).toEqual(['0', '1']);
  expect(byCell(text, 'weir_database_up')).toEqual({ 0: 1, 1: 1 });
});

test('a cell that is away is not up, and has no figures of its database', async () => {
  await app.cells[0]!.cutOff();
  await until(async () => app.primary.find(1)!.away !== null);
  await until(async () => byCell(await pageOf(app, app.primary).render(), 'weir_database_up')[1] === 0);
  const text = await pageOf(app, app.primary).render();
  expect(Object.keys(byCell(text, 'weir_database_bytes'))).toEqual(['0']);
  await app.cells[0]!.restore();
});

test('without cells no metric has the label', async () => {
  const single = await startTestApp();
  const home = { number: 0, name: 'home', database: single.database, away: null, awaySinceMs: 0 };
  const text = await pageOf(single, { all: () => [home] }).render();
  await single.stop();
  expect(text).not.toMatch(/\bcell="/);
  for (const name of cellMetrics) expect(text).toContain(`# TYPE ${name} `);
});
