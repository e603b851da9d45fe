/** `weir job list|show|cancel`. */

import { membersText } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { readList } from '../lists.ts';
import { type Row, row } from '../row.ts';

const percentOf = ({ progress }: { progress: number }) => `${Math.floor(progress * 100)}%`;

const target = { argument: 'id', description: 'id of the job' } as const;

export const rows: readonly Row[] = [
  row<{ limit: number }>()({
    name: 'list',
    description: 'show the newest jobs',
    options: [['--limit <jobs>', 'maximum number', wholeNumber(), 20]],
    run: (call, { options }) => readList(call, 'listJobs', {}, options.limit),
    list: {
      columns: ['ID', 'STATE', 'PROGRESS', 'EVENTS', 'DELIVERIES', 'CREATED', 'REASON'],
      cells: ['id', 'state', percentOf, 'events', 'deliveries', 'created_at', 'reason'],
      whenEmpty: () => `No jobs. Create one: ${weirCommand()} event replay --from TIME`,
    },
  }),
  row()({
    name: 'show',
    description: 'show one job',
    target,
    run: (call, { id }) => call('showJob', { id }),
    text: membersText,
  }),
  row()({
    name: 'cancel',
    description: 'end an unfinished job; the deliveries that it has created stay',
    target,
    run: (call, { id }) => call('cancelJob', { id }),
    text: ({ id, events, deliveries }) => `${id}: cancelled after ${events} events and ${deliveries} deliveries.\n`,
  }),
];
