/** The metrics page of the primary: what it sums, what it reads from the database, and its maximum number of series. */
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { AGENT_SERIES_MAX, figureReader, primaryFamilies } from '../../../server/operate/primary/families.ts';
import { CONNECTIONS_MAX, MetricsPage } from '../../../server/operate/primary/metrics-page.ts';
import { endLastLeases } from '../../../server/store/queries/deliveries/deliveries.ts';
import { addAgent, agentsOf, letPass, send, startAgentApp, subscribed } from '../../helpers/agents.ts';
import type { TestApp } from '../../helpers/app.ts';
import { fakeTimers } from '../../helpers/clock.ts';
import { freePort } from '../../helpers/ports.ts';
import { RawClient } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 2 }));

/** An installation without other cells. */
const homeOf = (database: TestApp['database']) => ({
  all: () => [{ number: 0, name: 'home', database, away: null, awaySinceMs: 0 }],
});

/** There are partitions for today and seven days. */
const state = { horizon: { fromMs: 0, toMs: (Math.floor(Date.now() / DAY_MS) + 8) * DAY_MS }, maintainedMs: 0 };

/** A page that has not read the database yet. */
function freshPage(): MetricsPage {
  return new MetricsPage({
    collect: async () => [await app.app.metrics()],
    readFigures: figureReader(homeOf(app.database)),
    ownFamilies: async () => primaryFamilies(state, [], 0),
    onFailure: (error) => expect.fail(error.message),
  });
}

/** Values of the series of a metric with these labels, in the order of the page. */
function seriesOf(text: string, name: string, labels: Record<string, string> = {}): number[] {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => wanted.every((label) => line.includes(label)))
    .map((line) => Number(line.slice(line.lastIndexOf(' '))));
}

test('deliveries are reported by agent, state and outcome, starting at zero', async () => {
  const { webhook, agent } = await subscribed(app);
  const of = async (name: string, outcome?: string) => {
    const text = await freshPage().render();
    return seriesOf(text, name, { agent: agent.id, ...(outcome === undefined ? {} : { outcome }) });
  };
  const depths = async () => [
    await of('weir_deliveries_pending'),
    await of('weir_deliveries_leased'),
    await of('weir_deliveries_dead'),
  ];
  const settled = async () => [
    await of('weir_deliveries_settled_total', 'acknowledged'),
    await of('weir_deliveries_settled_total', 'retried'),
    await of('weir_deliveries_settled_total', 'dead'),
    await of('weir_leases_expired_total'),
  ];
  expect([await depths(), await settled()]).toEqual([
    [[0], [0], [0]],
    [[0], [0], [0], [0]],
  ]);

  for (let i = 0; i < 4; i++) await send(webhook);
  const [first, second] = await agent.claim({ max: 2 });
  // Settled twice, counted once.
  for (let i = 0; i < 2; i++) await agent.ack([first!.receipt]);
  await agent.nack([second!.receipt], { delay_seconds: 86_400 });
  await agent.claim({ max: 2 });
  expect([await depths(), await settled()]).toEqual([
    [[1], [2], [0]],
    [[1], [1], [0], [0]],
  ]);

  // Both leases expire twice: the second time no attempt is left.
  await letPass(app.database, 3_600);
  expect(await agent.claim()).toHaveLength(2);
  expect(await of('weir_leases_expired_total')).toEqual([2]);
  await letPass(app.database, 3_600);
  expect(await agent.claim()).toEqual([]);
  expect([await depths(), await settled()]).toEqual([
    [[1], [0], [2]],
    [[1], [1], [2], [4]],
  ]);
});

test('a last lease that maintenance ends is counted for its agent', async () => {
  const { webhook, agent } = await subscribed(app);
  await send(webhook);
  for (let lease = 0; lease < 2; lease++) {
    await agent.claimOne();
    await letPass(app.database, 3_600);
  }
  const page = freshPage();
  await page.render();
  expect(await endLastLeases(app.database, 2, (agentIds) => page.lastLeasesEnded(agentIds))).toBe(1);
  const text = await page.render();
  expect(seriesOf(text, 'weir_deliveries_settled_total', { agent: agent.id, outcome: 'dead' })).toEqual([1]);
  // One by the second claim, one by maintenance.
  expect(seriesOf(text, 'weir_leases_expired_total', { agent: agent.id })).toEqual([2]);
});

test('a wait is as long as before when the clock of this machine jumps after it was read', async () => {
  const webhook = await app.addWebhook();
  const { id: agent } = await addAgent(app, [webhook]);
  await send(webhook);
  await letPass(app.database, 60);
  const page = freshPage();
  const waited = async () => seriesOf(await page.render(), 'weir_deliveries_oldest_pending_seconds', { agent })[0];
  const before = (await waited())!;
  fakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000 });
  const longer = (await waited())! - before;
  expect(before).toBeGreaterThanOrEqual(60);
  expect(longer).toBeGreaterThanOrEqual(0);
  expect(longer).toBeLessThan(600);
});

test('agents over the limit share one series', async () => {
  const webhook = await app.addWebhook();
  const agents = agentsOf(app);
  for (let i = 0; i < AGENT_SERIES_MAX; i++) made(await agents.add({ name: `one of many ${i}`, webhook_ids: [] }));
  const last = await addAgent(app, [webhook]);
  await send(webhook);
  await last.ack([(await last.claimOne()).receipt]);
  await send(webhook);
  await letPass(app.database, 100);
  const text = await freshPage().render();
  expect(seriesOf(text, 'weir_deliveries_oldest_pending_seconds', { agent: 'other' })[0]).toBeGreaterThanOrEqual(100);
  expect(seriesOf(text, 'weir_deliveries_pending')).toHaveLength(AGENT_SERIES_MAX + 1);
  expect(seriesOf(text, 'weir_deliveries_pending', { agent: 'other' })).toEqual([1]);
  const acknowledged = { agent: 'other', outcome: 'acknowledged' };
  expect(seriesOf(text, 'weir_deliveries_settled_total', acknowledged)).toEqual([1]);
  expect(seriesOf(text, 'weir_deliveries_settled_total', { agent: last.id })).toEqual([]);
});

test('a scrape gets the previous figures while the database takes long to read', async () => {
  let nowMs = 0;
  let release: () => void = () => {};
  let held: Promise<void> = Promise.resolve();
  const database: typeof app.database = {
    ...app.database,
    transaction: async (work) => {
      await held;
      return app.database.transaction(work);
    },
  };
  const read = figureReader(homeOf(database), () => nowMs);
  const first = await read();
  held = new Promise((resolve) => {
    release = resolve;
  });
  nowMs = 5_000;
  // The database is held: these do not wait for it.
  expect(await read()).toBe(first);
  release();
  await until(async () => (await read()) !== first);
});

test('metrics of the primary exist from the start', async () => {
  const page = freshPage();
  const before = await page.render();
  expect(seriesOf(before, 'weir_partitions_ahead')).toEqual([7]);
  expect(seriesOf(before, 'weir_maintenance_timestamp_seconds')).toEqual([0]);
  expect(before).toMatch(/^weir_build_info\{version="\d+\.\d+\.\d+",commit="[^"]+",node="\d+[^"]*"\} 1$/m);
  expect(seriesOf(before, 'process_start_time_seconds')[0]).toBeGreaterThan(Date.now() / 1000 - 3_600);
  expect(seriesOf(before, 'process_cpu_seconds_total')[0]).toBeGreaterThan(0);
  expect(seriesOf(before, 'weir_database_bytes')[0]).toBeGreaterThan(1_000_000);
  // The partitions of yesterday, which are empty.
  expect(seriesOf(before, 'weir_database_day_bytes')[0]).toBeLessThan(1_000_000);
  state.maintainedMs = Date.now();
  expect(seriesOf(await page.render(), 'weir_maintenance_timestamp_seconds')[0]).toBeGreaterThan(0);
});

test('a process that ends while the database is read is counted once', async () => {
  await send(await app.addWebhook());
  const snapshot = await app.app.metrics();
  let endRead = () => {};
  const read = new Promise<null>((resolve) => {
    endRead = () => resolve(null);
  });
  const page = new MetricsPage({
    collect: async () => [snapshot],
    readFigures: () => read,
    ownFamilies: async () => [],
    onFailure: (error) => expect.fail(error.message),
  });
  const rendered = page.render();
  await setImmediate();
  page.keep(snapshot);
  endRead();
  const [committed] = seriesOf(await rendered, 'weir_events_committed_total');
  expect(committed).toBeGreaterThan(0);
  expect(committed).toBe(await app.metric('weir_events_committed_total'));
});

describe('over HTTP', () => {
  let page: MetricsPage;
  let port: number;
  beforeAll(async () => {
    page = freshPage();
    port = await freePort();
    await page.listen('::', port);
  });
  afterAll(() => page.close());

  async function statusOf(...hosts: string[]): Promise<number> {
    const client = await RawClient.connect(port);
    await client.send(`GET /metrics HTTP/1.1\r\n${hosts.map((host) => `Host: ${host}\r\n`).join('')}\r\n`);
    const { status } = (await client.answer())!;
    client.destroy();
    return status;
  }

  test.each([
    [200, 'HEAD', '/metrics'],
    [200, 'GET', '/metrics?collect%5B%5D=deliveries'],
    [405, 'POST', '/metrics'],
    [404, 'GET', '/'],
    [404, 'GET', '/metrics/'],
  ])('answers %i to %s %s', async (status, method, path) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { connection: 'close' } });
    expect([response.status, response.headers.get('allow')]).toEqual([status, status === 405 ? 'GET, HEAD' : null]);
  });

  test.each([
    [200, ['127.0.0.1:9464']],
    [200, ['localhost']],
    [200, ['LOCALHOST:1']],
    [200, ['[::1]:9464']],
    [421, ['attacker.example:9464']],
    [421, ['127.0.0.1.attacker.example']],
    [421, ['10.0.0.1']],
    [400, []],
    [400, ['localhost', 'localhost']],
    [400, ['localhost', 'attacker.example']],
    [400, ['a b']],
    [400, ['']],
  ])('over loopback it answers %i to the hosts %s', async (status, hosts) => {
    expect(await statusOf(...hosts)).toBe(status);
  });

  test('it takes as many connections as its limit, and closes one more', async () => {
    const open = await Promise.all(Array.from({ length: CONNECTIONS_MAX }, () => RawClient.connect(port)));
    onTestFinished(() => {
      for (const client of open) client.destroy();
    });
    await (await RawClient.connect(port)).ended();
    expect(open.filter(({ closed }) => closed)).toEqual([]);
    open.pop()!.destroy();
    await until(async () => (await statusOf('localhost').catch(() => 0)) === 200);
  });
});
