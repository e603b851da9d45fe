import { expect, test } from 'vitest';
import { figureOf, labelsOf, watched } from '../../k6/lib/metrics-text.ts';
import { metricTable } from '../../server/base/telemetry/metric-table.ts';

const page = `# HELP weir_connections open TCP connections
# TYPE weir_connections gauge
weir_connections 12

# TYPE weir_requests_total counter
weir_requests_total{route="/in/:webhook_id",status="202"} 1.5e3
weir_requests_total{route="/readyz",status="200"} 2
`;

test('a figure is the sum over the labels', () => {
  expect(figureOf('weir_connections', page)).toBe(12);
  expect(figureOf('weir_requests_total', page)).toBe(1502);
});

test('a page without the metric is refused, and a longer name is another metric', () => {
  expect(() => figureOf('weir_conn', page)).toThrow(
    'METRICS_URL has no weir_conn; it must be the metrics page of Weir',
  );
  expect(() => figureOf('weir_connections', '')).toThrow('METRICS_URL has no weir_connections');
});

test('the labels of a metric are read, and are empty without it', () => {
  expect(labelsOf('weir_build_info', 'weir_build_info{version="1.2",commit="abc"} 1')).toEqual({
    version: '1.2',
    commit: 'abc',
  });
  expect(labelsOf('weir_build_info', page)).toEqual({});
});

test('Weir publishes every metric that the soak test reads', () => {
  for (const name of Object.values(watched)) expect(metricTable).toHaveProperty(name);
});
