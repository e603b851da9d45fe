/** `weir outage list`. */
import { DAY_MS } from '../../../base/time/durations.ts';
import { ISSUES_KEPT_DAYS } from '../../../model/issues.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { type Row, row } from '../row.ts';

/** Outages are kept as long as other issues. */
const DAYS_MAX = ISSUES_KEPT_DAYS;

export const rows: readonly Row[] = [
  row<{ days: number }>()({
    name: 'list',
    description: 'show the outages that have ended, newest first',
    options: [['--days <days>', `how far back, at most ${DAYS_MAX}`, wholeNumber(DAYS_MAX), 30]],
    run: (call, { options: { days } }) =>
      call('listOutages', { query: { from: new Date(Date.now() - days * DAY_MS).toISOString() } }),
    list: {
      columns: ['BEGAN', 'ENDED', 'REFUSED', 'SPOOLED', 'MACHINE'],
      cells: ['began_at', 'ended_at', 'refused', 'spooled', 'machine'],
      whenEmpty: 'No outages.',
    },
  }),
];
