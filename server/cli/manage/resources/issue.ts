/** `weir issue list|show|assign|snooze` and `weir alert list|test`. */
import { Argument, InvalidArgumentError, Option } from 'commander';
import { CommandError, membersText } from '../../../base/command/io.ts';
import { issueStates } from '../../../model/issues.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { idOfGiven, readList } from '../lists.ts';
import { type Row, row } from '../row.ts';

const target = { argument: 'id', description: 'id of the issue' } as const;

const unitsMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

function span(text: string): number {
  const [, number, unit] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('Give a time such as 30m, 4h or 7d.');
  return Number(number) * unitsMs[unit as keyof typeof unitsMs];
}

export const rows: readonly Row[] = [
  row<{ state?: (typeof issueStates)[number]; webhook?: string; agent?: string; limit: number }>()({
    name: 'list',
    description: 'show issues, newest first',
    options: [
      new Option('--state <state>', 'only issues in this state').choices(issueStates),
      ['--webhook <webhook>', 'only issues of this webhook'],
      ['--agent <agent>', 'only issues of this agent'],
      ['--limit <issues>', 'maximum number', wholeNumber(), 50],
    ],
    check: (_, { webhook, agent }) => {
      if (webhook !== undefined && agent !== undefined)
        throw new CommandError('give --webhook or --agent, not both', 2);
    },
    run: async (call, { options: { state, webhook, agent, limit } }) => {
      const subject_id = (await idOfGiven(call, 'webhook', webhook)) ?? (await idOfGiven(call, 'agent', agent));
      return readList(call, 'listIssues', { state, subject_id }, limit);
    },
    list: {
      columns: ['ID', 'STATE', 'FIRST', 'LAST', 'COUNT', 'ASSIGNEE', 'ISSUE'],
      cells: ['id', 'state', 'first_at', 'last_at', 'count', ['assignee', '-'], 'title'],
      whenEmpty: ({ state }) => (state === undefined ? 'No issues.' : `No ${state} issues.`),
    },
  }),
  row()({
    name: 'show',
    description: 'show one issue',
    target,
    run: (call, { id }) => call('showIssue', { id }),
    text: membersText,
  }),
  row<{ note?: string }>()({
    name: 'assign',
    description: 'say who looks after an issue, and note something on it',
    target,
    argument: new Argument('[assignee]', 'who looks after it, such as an email address; absent: the assignment ends'),
    options: [['--note <text>', 'replaces the note; empty: removes it']],
    run: (call, { id, argument, options: { note } }) =>
      call('updateIssue', {
        id,
        input: { assignee: argument || null, ...(note === undefined ? {} : { note: note || null }) },
      }),
    text: ({ title, assignee }) => `${assignee === null ? 'Not assigned' : `Assigned to ${assignee}`}: ${title}\n`,
  }),
  row<{ for: number; end?: boolean }>()({
    name: 'snooze',
    description: 'do not count an issue as open for a while; it ends when the issue is resolved',
    target,
    options: [
      new Option('--for <time>', 'how long, such as 30m, 4h or 7d').argParser(span).default(unitsMs.d, '1d'),
      ['--end', 'end the snooze'],
    ],
    run: (call, { id, options: { for: ms, end } }) =>
      call('updateIssue', { id, input: { snoozed_until: end ? null : new Date(Date.now() + ms).toISOString() } }),
    text: ({ title, snoozed_until }) =>
      `${snoozed_until === null ? 'Not snoozed' : `Snoozed until ${snoozed_until}`}: ${title}\n`,
  }),
];

const LISTED_MAX = 200;

export const alertRows: readonly Row[] = [
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
