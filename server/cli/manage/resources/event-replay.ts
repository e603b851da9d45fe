/** `weir event replay`: one event at once, or many by filter, as a job that the command watches; and `weir job`. */
import { CommandError, type CommandIo, membersText, printLine } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import { pause } from '../../../base/time/backoff.ts';
import type { BodyOf } from '../../../manage/api/operations.ts';
import { counted } from '../../../model/words.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { openBar } from '../../command/progress.ts';
import { untilSignal } from '../../command/run-command.ts';
import { type Call, isAnsweredYes } from '../call.ts';
import { idsOfGiven, readList } from '../lists.ts';
import { type Given, type Row, repeated, row } from '../row.ts';
import { type FilterOptions, filterOptions, isFiltered, queryOfFilters } from './event-filters.ts';

interface Options extends FilterOptions {
  agent?: string[];
  beyondSubscriptions?: boolean;
  yes?: boolean;
}

type Job = BodyOf<'showJob'>;

const POLL_EVERY_MS = 500;
/** A job that is queued for longer is explained. */
const QUEUED_MS = 10_000;

export const replayRow = row<Options>()({
  name: 'replay',
  description: 'deliver events again: the one with this id, or all that match the filters, as a job',
  target: { argument: 'id', description: 'id of the event', optional: true },
  options: [
    ['--agent <agent>', 'to this agent instead of every subscribed one, by id or name; may be repeated', repeated],
    ['--beyond-subscriptions', 'also what filters exclude and, with --agent, webhooks without a subscription'],
    ['--yes', 'do not ask'],
    ...filterOptions,
  ],
  check: (id, options) => {
    if (id !== '' && isFiltered(options)) throw new CommandError('give the id of an event, or filters, not both', 2);
    if (id === '' && !isFiltered(options))
      throw new CommandError('give the id of an event, or a filter such as --from, --webhook or --type', 2);
  },
  run: async (call, given): Promise<BodyOf<'replayEvent'> | Job> => {
    const agent_ids = await idsOfGiven(call, 'agent', given.options.agent);
    const scope = { agent_ids, beyond_subscriptions: given.options.beyondSubscriptions ?? false };
    if (given.id !== '') return call('replayEvent', { id: given.id, input: scope });
    return replayMany(call, given, scope);
  },
  text: (answer, { id }) => {
    if (!('state' in answer)) {
      return `${id}: ${counted(answer.delivery_ids.length, 'new delivery', 'new deliveries')}.\n`;
    }
    if (answer.state === 'done')
      return `Replayed ${counted(answer.events, 'event')}: ${counted(answer.deliveries, 'new delivery', 'new deliveries')}. Job ${answer.id}\n`;
    return `Job ${answer.id} continues.\n  Progress  ${weirCommand()} job list\n  Cancel    ${weirCommand()} job cancel ${answer.id}\n`;
  },
  failure: (answer) => {
    if (!('state' in answer) || (answer.state !== 'failed' && answer.state !== 'cancelled')) return null;
    const { id, state, events, reason } = answer;
    return `job ${id} was ${state} after ${counted(events, 'event')}${reason === null ? '' : `: ${reason}`}`;
  },
});

interface Scope {
  agent_ids: string[] | undefined;
  beyond_subscriptions: boolean;
}

type Preview = Extract<BodyOf<'replayEvents'>, { agents: unknown }>;
type Created = Extract<BodyOf<'replayEvents'>, { job_id: string }>;

async function replayMany(call: Call, { options, io }: Given<Options>, scope: Scope): Promise<Job> {
  const filter = await queryOfFilters(call, options);
  const preview = (await call('replayEvents', { input: { ...filter, ...scope, preview: true } })) as Preview;
  if (preview.events === 0) throw new CommandError('no event matches; see: weir event list');
  if (!options.yes && !(await isAnsweredYes(io, questionOf(preview, scope))))
    throw new CommandError('nothing was replayed; --yes does not ask');
  const { job_id } = (await call('replayEvents', { input: { ...filter, ...scope } })) as Created;
  return watch(call, io, job_id);
}

function questionOf({ events, exact, agents }: Preview, { beyond_subscriptions }: Scope): string {
  const atLeast = (count: number) => `${exact ? '' : 'at least '}${counted(count, 'event')}`;
  const lines = agents.map(({ name, deliveries, filtered, beyond }) => {
    const count = deliveries + (beyond_subscriptions ? beyond : 0);
    const excluded =
      beyond_subscriptions || beyond === 0 ? '' : `, without ${beyond} of webhooks to which it is not subscribed`;
    const judged = beyond_subscriptions || !filtered ? '' : ', less what its filters exclude';
    return `  ${name}: ${atLeast(count)}${excluded}${judged}\n`;
  });
  return `${lines.join('')}Replay ${atLeast(events)}? [y/N] `;
}

/** Shows the progress until the job has ended, or a signal such as Ctrl-C. Returns the last state of the job. */
function watch(call: Call, io: CommandIo, id: string): Promise<Job> {
  const bar = openBar('{bar} {percentage}%, {events} events, {duration_formatted}{note}', io.stderr);
  bar.start(1, 0, { events: 0, note: '' });
  const startedMs = performance.now();
  let isExplained = false;
  return untilSignal(async (stop) => {
    for (;;) {
      const job = await call('showJob', { id });
      if (job.events > 0) bar.update(job.progress, { events: job.events, note: '' });
      if (job.finished_at !== null || stop.aborted) return job;
      if (!isExplained && job.state === 'queued' && performance.now() - startedMs > QUEUED_MS) {
        isExplained = true;
        const note = 'waits for other jobs, or for Weir to be started';
        bar.update({ note: `, ${note}` });
        if (!io.stderr.isTTY) printLine(io, `The job ${note}.`);
      }
      await pause(POLL_EVERY_MS, stop);
    }
  }).finally(() => bar.stop());
}

const percentOf = ({ progress }: { progress: number }) => `${Math.floor(progress * 100)}%`;

const target = { argument: 'id', description: 'id of the job' } as const;

/** `weir job list|show|cancel`. */
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
    text: ({ id, events, deliveries }) =>
      `${id}: cancelled after ${counted(events, 'event')} and ${counted(deliveries, 'delivery', 'deliveries')}.\n`,
  }),
];
