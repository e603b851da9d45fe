/** `weir history`: requests over time, as the overview draws them. */

import { itemsTable } from '../../../base/command/io.ts';
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
        ['FROM', 'ACCEPTED', 'DUPLICATES', 'REJECTED', 'LIMITED', 'BYTES'],
        [
          ({ at }) => (step === HOUR ? `${at.slice(0, 13).replace('T', ' ')}:00` : at.slice(0, 10)),
          ...(['accepted', 'duplicates', 'rejected', 'limited', 'bytes'] as const),
        ],
        points,
      ),
  }),
];
