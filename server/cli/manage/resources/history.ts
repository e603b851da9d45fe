/** `weir history`, `weir latency` and `weir outage list`: requests over time, how long events take, and outages. */
import { Option } from 'commander';
import { itemsTable, table } from '../../../base/command/io.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import { ISSUES_KEPT_DAYS } from '../../../model/issues.ts';
import { latencySpans } from '../../../model/latency.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { idOfGiven } from '../lists.ts';
import { type Row, row } from '../row.ts';

/** Hours are kept for 400 days. */
const HOURS_MAX = 9_600;
/** A longer history is shown by days. */
const BY_HOUR_MAX = 48;
const HOUR = 3_600;

export const rows: readonly Row[] = [
  row<{ webhook?: string; hours: number }>()({
    name: '',
    description: '',
    options: [
      ['--webhook <webhook>', 'of this webhook, by id or name; default: all webhooks together'],
      ['--hours <hours>', `how far back, at most ${HOURS_MAX}`, wholeNumber(HOURS_MAX), 24],
    ],
    run: async (call, { options: { webhook, hours } }) => {
      const step = hours <= BY_HOUR_MAX ? HOUR : 24 * HOUR;
      const stepMs = step * 1_000;
      const toMs = Math.ceil((Date.now() + 1) / stepMs) * stepMs;
      const from = new Date(toMs - Math.ceil((hours * HOUR) / step) * stepMs).toISOString();
      const webhook_id = await idOfGiven(call, 'webhook', webhook);
      return call('showHistory', { query: { webhook_id, from, to: new Date(toMs).toISOString(), step } });
    },
    text: ({ step, points }) =>
      itemsTable(
        ['FROM (UTC)', 'ACCEPTED', 'DUPLICATES', 'REJECTED', 'LIMITED', 'BYTES'],
        [
          ({ at }) => (step === HOUR ? `${at.slice(0, 13).replace('T', ' ')}:00` : at.slice(0, 10)),
          ...(['accepted', 'duplicates', 'rejected', 'limited', 'bytes'] as const),
        ],
        points,
      ),
  }),
];

export const latencyRows: readonly Row[] = [
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

export const outageRows: readonly Row[] = [
  row<{ days: number }>()({
    name: 'list',
    description: 'show the outages that have ended, newest first',
    options: [['--days <days>', `how far back, at most ${ISSUES_KEPT_DAYS}`, wholeNumber(ISSUES_KEPT_DAYS), 30]],
    run: (call, { options: { days } }) =>
      call('listOutages', { query: { from: new Date(Date.now() - days * DAY_MS).toISOString() } }),
    list: {
      columns: ['BEGAN', 'ENDED', 'REFUSED', 'SPOOLED', 'MACHINE'],
      cells: ['began_at', 'ended_at', 'refused', 'spooled', 'machine'],
      whenEmpty: 'No outages.',
    },
  }),
];
