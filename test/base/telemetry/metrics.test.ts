/** Metrics of a process: series that exist from the start, and gauges that reading does not change. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { limitNames } from '../../../server/base/ratelimit/limiter.ts';
import { metricTable } from '../../../server/base/telemetry/metric-table.ts';
import { LAG_WINDOW_SECONDS, LoopLag } from '../../../server/manage/live/sample.ts';
import { problems } from '../../../server/model/errors.ts';
import { startTestApp } from '../../helpers/app.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startTestApp);

type Series = { value: number; labels: Record<string, string> };
async function seriesOf(name: string): Promise<Series[]> {
  const families = (await app.app.metrics()) as { name: string; values: Series[] }[];
  return families.find((family) => family.name === name)!.values;
}

/** Labels that are known only at the first occurrence. */
const byAgent = ['weir_filter_failures_total', 'weir_deliveries_settled_total', 'weir_leases_expired_total'];

test('every counter of a process starts with its known series at 0', async () => {
  const families = (await app.app.metrics()) as { name: string; type: string; values: Series[] }[];
  for (const { name, type, values } of families) {
    expect(metricTable).toHaveProperty(name);
    if (type !== 'gauge' && !byAgent.includes(name)) expect([name, values.length > 0]).toEqual([name, true]);
  }
  const labelsOf = async (name: string, label: string) => (await seriesOf(name)).map(({ labels }) => labels[label]);
  expect(await labelsOf('weir_problems_total', 'code')).toEqual(Object.keys(problems));
  expect(await labelsOf('weir_requests_uncounted_total', 'limit')).toEqual([...limitNames]);
  expect(await labelsOf('weir_rejections_total', 'outcome')).toContain('sampled_out');
  const ingest = (await seriesOf('weir_requests_total')).filter(({ labels }) => labels.route === '/in/:webhook_id');
  expect(ingest.map(({ labels }) => labels.status)).toEqual(
    expect.arrayContaining(['202', '200', '403', '429', '503']),
  );
  expect(ingest.every(({ value }) => value === 0)).toBe(true);
});

test('a problem is counted by its code', async () => {
  const of = async (code: string) =>
    (await seriesOf('weir_problems_total')).find(({ labels }) => labels.code === code)!.value;
  expect(await of('webhook_unknown')).toBe(0);
  await fetch(`${app.url}/in/00000000-0000-4000-8000-000000000000`, { method: 'POST', body: '{}' });
  expect([await of('webhook_unknown'), await of('not_found')]).toEqual([1, 0]);
});

test('the largest lag is kept for its window, for any number of reads', async () => {
  const lag = new LoopLag();
  // The monitor measures from the first run of its timer on, which a busy machine delays.
  await until(async () => {
    const endMs = performance.now() + 200;
    while (performance.now() < endMs);
    await delay(30);
    return lag.largest > 100;
  });
  expect(lag.largest).toBeGreaterThan(100);
  lag.take();
  for (let second = 1; second < LAG_WINDOW_SECONDS; second++) lag.take();
  expect(lag.largest).toBeGreaterThan(100);
  lag.take();
  expect(lag.largest).toBeLessThan(100);
  lag.stop();
});
