/** The dashboard, in a real Prometheus that scrapes a real Weir. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dashboard } from '../../../server/base/telemetry/dashboard.ts';
import { metricTable } from '../../../server/base/telemetry/metric-table.ts';
import { freePort } from '../../helpers/ports.ts';
import { until } from '../../helpers/wait.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

interface Panel {
  type: string;
  title: string;
  description?: string;
  targets?: { refId: string; expr: string; legendFormat: string }[];
}
const panels = dashboard().panels as Panel[];
const charts = panels.filter(({ type }) => type === 'timeseries');

test('the dashboard has one panel for each metric of the table', () => {
  const shown = charts.map(({ description }) => description!.split(':')[0]);
  expect(shown.sort()).toEqual(Object.keys(metricTable).sort());
});

describe('in a Prometheus that scrapes Weir', () => {
  let weir: Weir;
  let url: string;
  let stopPrometheus: () => Promise<void>;

  beforeAll(async () => {
    weir = await startWeir({ WORKERS: 1 });
    const folder = await mkdtemp(join(tmpdir(), 'weir-prometheus-'));
    const scrape = { job_name: 'weir', static_configs: [{ targets: [`127.0.0.1:${weir.metricsPort}`] }] };
    const config = {
      global: { scrape_interval: '1s' },
      scrape_configs: [scrape],
    };
    // JSON is YAML.
    await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config));
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const options = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`];
    const child = spawn('prometheus', [...options, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    stopPrometheus = async () => {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true });
    };
    await until(async () => (await fetch(`${url}/-/ready`).catch(() => null))?.ok);
    // Two samples, so that a rate has a value.
    await until(async () => Number((await query('count_over_time(weir_build_info[1h])'))[0]?.value[1]) >= 2);
  });
  afterAll(async () => {
    await stopPrometheus();
    await weir.stop();
  });

  async function ask<T>(path: string): Promise<T> {
    const answer = await fetch(`${url}${path}`);
    const { status, data, error } = (await answer.json()) as { status: string; data: T; error?: string };
    if (status !== 'success') throw new Error(`${path}: ${error}`);
    return data;
  }

  async function query(expr: string): Promise<{ metric: Record<string, string>; value: [number, string] }[]> {
    return (await ask<{ result: never[] }>(`/api/v1/query?query=${encodeURIComponent(expr)}`)).result;
  }

  test('every query of the dashboard has a result with the labels of its legend', async () => {
    for (const { title, targets } of charts)
      for (const { expr, legendFormat } of targets!) {
        const real = expr.replaceAll('$__rate_interval', '1h').replaceAll(/\$(job|instance)/g, '.*');
        const [first] = await query(real);
        expect([title, first === undefined]).toEqual([title, false]);
        // Without cells a cell has no series, and without an agent only the series of all others, which has no name.
        const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
        expect(Object.keys(first!.metric)).toEqual(
          expect.arrayContaining(labels.filter((label) => !['agent_name', 'cell'].includes(label))),
        );
      }
  });
});
