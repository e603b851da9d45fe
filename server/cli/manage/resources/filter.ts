/** `weir filter test`. */

import { table } from '../../../base/command/io.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { idOf } from '../lists.ts';
import { type Row, row } from '../row.ts';

/** As the API allows. */
const TRIED_EVENTS_MAX = 200;

export const filterRows: readonly Row[] = [
  row<{ webhook: string; filter: string; events?: number }>()({
    name: 'test',
    description: 'show which of the newest events of a webhook a filter would deliver; changes nothing',
    options: [['--events <number>', 'number of events', wholeNumber('--events', TRIED_EVENTS_MAX)]],
    more: (command) =>
      command
        .requiredOption('--webhook <webhook>', 'id or name of the webhook')
        .requiredOption('--filter <expression>', 'CEL expression, as in weir agent subscribe'),
    run: async (call, { options: { webhook, filter, events } }) =>
      call('testFilter', { input: { webhook_id: await idOf(call, 'webhook', webhook), filter, events } }),
    text: ({ items, passed, filtered, failed, undecided, last_day: day }) => {
      if (items.length === 0) return 'The webhook has no events yet.\n';
      const rows = items.map((one) => [
        one.event_id,
        one.received_at,
        one.event_type ?? '',
        one.verdict,
        one.reason ?? '',
      ]);
      const leftOut = undecided === 0 ? '' : ` ${undecided} left out: the filter took too long on others.`;
      const inLastDay =
        day === null
          ? ''
          : `${day.exact ? '' : 'About '}${day.passed} of ${day.events} events of the last 24 hours would have been delivered.\n`;
      return `${table(['EVENT', 'RECEIVED', 'TYPE', 'VERDICT', 'REASON'], rows)}\n${passed} passed, ${filtered} filtered, ${failed} failed (they would be delivered).${leftOut}\n${inLastDay}`;
    },
  }),
];
