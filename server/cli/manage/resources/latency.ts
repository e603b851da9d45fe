/** `weir latency`: how long events take, as the page Latency shows it. */
import { Option } from 'commander';
import { table } from '../../../base/command/io.ts';
import { latencySpans } from '../../../model/latency.ts';
import { type Row, row } from '../row.ts';

export const rows: readonly Row[] = [
  row<{ days: string }>()({
    name: '',
    description: '',
    options: [new Option('--days <days>', 'how far back').choices(Object.keys(latencySpans)).default('1')],
    run: (call, { options: { days } }) => call('listLatency', { query: { days } }),
    text: ({ items }) =>
      items.length === 0
        ? 'Nothing was timed.\n'
        : table(
            ['KIND', 'NAME', 'STORED P50', 'P95', 'CLAIMED P50', 'P95', 'ACKED P50', 'P95 (ms)', 'RETRIES'],
            items.map(({ kind, name, stored, claimed, acknowledged, retries }) => [
              kind,
              name,
              ...[stored, claimed, acknowledged].flatMap((stage) =>
                stage === null ? ['-', '-'] : [String(stage.p50_ms), String(stage.p95_ms)],
              ),
              String(retries),
            ]),
          ),
  }),
];
