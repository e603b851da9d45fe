/** `weir alert list|test`. */
import { wholeNumber } from '../../command/arguments.ts';
import { readList } from '../lists.ts';
import { type Row, row } from '../row.ts';

const LISTED_MAX = 200;

export const rows: readonly Row[] = [
  row<{ active?: boolean; limit: number }>()({
    name: 'list',
    description: 'show the newest alerts, active and ended',
    options: [
      ['--active', 'only alerts that are active now'],
      ['--limit <alerts>', `maximum number, at most ${LISTED_MAX}`, wholeNumber(LISTED_MAX), 20],
    ],
    run: (call, { options: { active, limit } }) => readList(call, 'listAlerts', { active }, limit),
    list: {
      columns: ['BEGAN', 'ENDED', 'CONDITION', 'REQUESTS', 'ALERT'],
      cells: [
        'began_at',
        ['ended_at', 'active'],
        'condition',
        ({ requests }) =>
          requests.map(({ type, state }) => `${type.replace('alert.', '')}: ${state}`).join(', ') || '-',
        'text',
      ],
      whenEmpty: ({ active }) => (active ? 'No alert is active.' : 'No alerts.'),
    },
  }),
  row()({
    name: 'test',
    description: 'send a test alert to ALERT_URL; exit code 1 when it does not arrive',
    run: (call) => call('testAlert'),
    text: ({ status, duration_ms }) => `Sent: answered ${status} after ${Math.round(duration_ms)} ms.\n`,
    failure: ({ sent, error, fix }) => (sent ? null : `${error}; ${fix}`),
  }),
];
