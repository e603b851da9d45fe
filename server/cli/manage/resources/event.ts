/** `weir event list|show|replay`; for export and import see event-files.ts. */
import { printLine } from '../../../base/command/io.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { readList } from '../lists.ts';
import { type Row, row } from '../row.ts';
import { type FilterOptions, filterOptions, queryOfFilters } from './event-filters.ts';
import { replayRow } from './event-replay.ts';

export const rows: readonly Row[] = [
  row<FilterOptions & { limit: number }>()({
    name: 'list',
    description: 'show the newest events',
    options: [...filterOptions, ['--limit <events>', 'maximum number', wholeNumber(), 20]],
    run: async (call, { options, io }) =>
      readList(call, 'listEvents', await queryOfFilters(call, options), options.limit, ({ searched_to }, found) => {
        if (searched_to !== null) printLine(io, `searched back to ${searched_to}, ${found} found`);
      }),
    list: {
      columns: ['TYPE', 'WEBHOOK', 'RECEIVED', 'FROM', 'BYTES', 'CONTENT TYPE', 'ID'],
      names: true,
      cells: [
        'event_type',
        ({ webhook_id: id }, named) => named(id),
        'received_at',
        'source_ip',
        'bytes',
        'content_type',
        'id',
      ],
      whenEmpty: 'No events yet.',
    },
  }),

  row<{ body?: true; json?: true }>()({
    name: 'show',
    description: 'show one event as text, with control characters escaped',
    target: { argument: 'id', description: 'id of the event' },
    options: [['--body', 'write only the body, byte for byte']],
    run: async (call, { id, options, connection }) => {
      const event = await call('showEvent', { id });
      return { event, body: options.json ? null : await connection.readBytes('showEventBody', id) };
    },
    json: ({ event }) => event,
    text: ({ event, body }, { options }) =>
      options.body ? body! : `${headerLines(event.headers)}\n${Buffer.from(body!).toString('utf8')}\n`,
  }),

  replayRow,
];

/** Formats each header as a line. */
export function headerLines(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join('');
}
