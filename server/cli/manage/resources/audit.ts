/** `weir audit list|verify`. */
import { time, wholeNumber } from '../../command/arguments.ts';
import { readList } from '../lists.ts';
import { type Row, row } from '../row.ts';

export const rows: readonly Row[] = [
  row<Partial<Record<'action' | 'actor' | 'target' | 'from' | 'to', string>> & { limit: number }>()({
    name: 'list',
    description: 'show the newest entries',
    options: [
      ['--action <action>', 'actions that start with this, e.g. token. or webhook.create'],
      ['--actor <id>', 'by this user'],
      ['--target <id>', 'on this target'],
      ['--from <time>', 'at or after this time, e.g. 2030-01-31T12:00:00Z', time],
      ['--to <time>', 'before this time', time],
      ['--limit <entries>', 'maximum number', wholeNumber(), 20],
    ],
    run: (call, { options: { action, actor, target, from, to, limit } }) =>
      readList(call, 'listAudit', { action, actor_id: actor, target_id: target, from, to }, limit),
    list: {
      columns: ['NUMBER', 'AT', 'WHO', 'FROM', 'ACTION', 'TARGET'],
      cells: [
        'number',
        ['at', '?'],
        ({ actor }) => (actor === null ? '?' : `${actor.kind} ${actor.name}`),
        ({ actor }) => actor?.address,
        ['action', '?'],
        ({ target }) => (target === null ? '?' : `${target.name}${target.id === null ? '' : ` (${target.id})`}`),
      ],
      whenEmpty: 'No matching entries.',
    },
  }),
  row<{ head?: string }>()({
    name: 'verify',
    database: 'always',
    description: 'recompute every hash of the log; exit code 1 when the log is not valid',
    options: [
      ['--head <hash>', 'hash of an entry that the chain must contain, e.g. of the last audit_head in the log'],
    ],
    run: (call, { options: { head } }) => call('verifyAudit', { query: { head } }),
    text: ({ entries, head }) =>
      `${entries === 1 ? '1 entry is valid' : `All ${entries} entries are valid`}.${head === null ? '' : `\n  Head  ${head.hash}`}\n`,
    failure: ({ intact, reason, entries }) => (intact ? null : `${reason} Valid entries before it: ${entries}.`),
  }),
];
