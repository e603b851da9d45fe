/** `weir event replay`: one event at once, or many by filter, as a job that the command watches. */
import { createInterface } from 'node:readline/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { weirCommand } from '../../files/command.ts';
import { CommandError, type CommandIo, printMessage } from '../io.ts';
import type { BodyOf, Call } from '../manage/call.ts';
import { idsOfGiven } from '../manage/lists.ts';
import { type Given, repeated, row } from '../manage/row.ts';
import { showJobProgress } from '../progress.ts';
import { type FilterOptions, isFiltered, queryOfFilters, withFilters } from './filters.ts';

interface Options extends FilterOptions {
  agent?: string[];
  yes?: boolean;
}

type Job = BodyOf<'showJob'>;

const LOOK_EVERY_MS = 500;
/** A job that is queued for longer is explained. */
const QUEUED_MS = 10_000;

export const replayRow = row<Options>()({
  name: 'replay',
  description: 'deliver events again: the one with this id, or all that match the filters, as a job',
  target: { argument: 'id', description: 'id of the event', optional: true },
  options: [
    ['--agent <agent>', 'to this agent instead of every subscribed one, by id or name; may be repeated', repeated],
    ['--yes', 'do not ask'],
  ],
  more: withFilters,
  check: (id, options) => {
    if (id !== '' && isFiltered(options)) throw new CommandError('give the id of an event, or filters, not both', 2);
    if (id === '' && !isFiltered(options))
      throw new CommandError('give the id of an event, or a filter such as --from, --webhook or --type', 2);
  },
  run: async (call, given): Promise<BodyOf<'replayEvent'> | Job> => {
    const agent_ids = await idsOfGiven(call, 'agent', given.options.agent);
    if (given.id !== '') return call('replayEvent', { id: given.id, input: { agent_ids } });
    return replayMany(call, given, agent_ids);
  },
  text: (answer, { id }) => {
    if (!('state' in answer)) {
      const { length } = answer.delivery_ids;
      return `${id}: ${length} new ${length === 1 ? 'delivery' : 'deliveries'}.\n`;
    }
    if (answer.state === 'done')
      return `Replayed ${answer.events} events: ${answer.deliveries} new deliveries. Job ${answer.id}\n`;
    return `Job ${answer.id} continues.\n  Progress  ${weirCommand()} job list\n  Cancel    ${weirCommand()} job cancel ${answer.id}\n`;
  },
  failure: (answer) => {
    if (!('state' in answer) || (answer.state !== 'failed' && answer.state !== 'cancelled')) return null;
    const { id, state, events, reason } = answer;
    return `job ${id} was ${state} after ${events} events${reason === null ? '' : `: ${reason}`}`;
  },
});

async function replayMany(call: Call, { options, io }: Given<Options>, agent_ids: string[] | undefined): Promise<Job> {
  const filter = await queryOfFilters(call, options);
  const { count, exact } = await call('countEvents', { query: filter });
  if (count === 0) throw new CommandError('no event matches; see: weir event list');
  const many = `${exact ? '' : 'more than '}${count} ${count === 1 ? 'event' : 'events'}`;
  const to =
    agent_ids === undefined
      ? 'every subscribed agent'
      : `${agent_ids.length} ${agent_ids.length === 1 ? 'agent' : 'agents'}`;
  if (
    !options.yes &&
    !(await isConfirmed(io, `Filters of subscriptions do not apply. Replay ${many} to ${to}? [y/N] `))
  )
    throw new CommandError('nothing was replayed; --yes does not ask');
  const { job_id } = await call('replayEvents', { input: { ...filter, agent_ids } });
  return watch(call, io, job_id);
}

async function isConfirmed(io: CommandIo, question: string): Promise<boolean> {
  printMessage(io, question);
  const lines = createInterface({ input: io.stdin });
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim());
    return false;
  } finally {
    lines.close();
  }
}

/** Shows the progress until the job has ended or Ctrl-C is pressed. Returns the final state of the job. */
async function watch(call: Call, io: CommandIo, id: string): Promise<Job> {
  const interrupted = new AbortController();
  const onInterrupt = () => interrupted.abort();
  process.once('SIGINT', onInterrupt);
  const shown = showJobProgress(io.stderr);
  const startedMs = performance.now();
  let isExplained = false;
  try {
    for (;;) {
      const job = await call('showJob', { id });
      shown.progress(job);
      if (job.finished_at !== null || interrupted.signal.aborted) return job;
      if (!isExplained && job.state === 'queued' && performance.now() - startedMs > QUEUED_MS) {
        isExplained = true;
        shown.waiting('waits for other jobs, or for Weir to be started');
      }
      await delay(LOOK_EVERY_MS, undefined, { signal: interrupted.signal }).catch(() => {});
    }
  } finally {
    shown.stop();
    process.removeListener('SIGINT', onInterrupt);
  }
}
