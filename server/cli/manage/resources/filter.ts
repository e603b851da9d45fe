/** `weir filter test`. */
import { itemsTable } from '../../../base/command/io.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { idOf } from '../lists.ts';
import { type Row, row } from '../row.ts';

/** The API tries a filter on at most this number of events. */
const TRIED_EVENTS_MAX = 200;

export const rows: readonly Row[] = [
  row<{ webhook: string; filter: string; events?: number }>()({
    name: 'test',
    description: 'show which of the newest events of a webhook a filter would deliver; changes nothing',
    options: [['--events <number>', 'number of events', wholeNumber(TRIED_EVENTS_MAX)]],
    required: [
      ['--webhook <webhook>', 'id or name of the webhook'],
      ['--filter <expression>', 'CEL expression, as in weir agent subscribe'],
    ],
    run: async (call, { options: { webhook, filter, events } }) =>
      call('testFilter', { input: { webhook_id: await idOf(call, 'webhook', webhook), filter, events } }),
    text: ({ items, passed, filtered, failed, undecided, last_day: day }) => {
      if (items.length === 0) return 'The webhook has no events yet.\n';
      const columns = ['EVENT', 'RECEIVED', 'TYPE', 'VERDICT', 'REASON'];
      const shown = itemsTable(columns, ['event_id', 'received_at', 'event_type', 'verdict', 'reason'], items);
      const leftOut = undecided === 0 ? '' : ` ${undecided} left out: the filter took too long on others.`;
      const inLastDay =
        day === null
          ? ''
          : `${day.exact ? '' : 'About '}${day.passed} of ${day.events} events of the last 24 hours would have been delivered.\n`;
      return `${shown}\n${passed} passed, ${filtered} filtered, ${failed} failed (they would be delivered).${leftOut}\n${inLastDay}`;
    },
  }),
];
