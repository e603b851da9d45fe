/** `weir event replay`: one event at once, or many by filter, as a job that the command watches. */
import { createInterface } from 'node:readline/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { type EventReplayed, replayEvent } from '../api/events/replay.ts';
import { EventSearch } from '../api/events/search.ts';
import { createReplayJob, type JobCreated } from '../api/jobs/service.ts';
import { commandActor } from '../audit/actor.ts';
import { isTimedId } from '../db/ids.ts';
import type { Database } from '../db/pool.ts';
import { findJob, type JobRecord } from '../db/queries/jobs.ts';
import { weirCommand } from '../files/command.ts';
import { eventFilterOf } from '../resources/event-filter.ts';
import { uuid, uuids } from './arguments.ts';
import { type FilterOptions, filtersOf } from './event/filters.ts';
import { CommandError, type CommandIo, printJson, printMessage, printText } from './io.ts';
import { showJobProgress } from './progress.ts';
import { withDatabase } from './session.ts';

interface Options extends FilterOptions {
  agent?: string[];
  yes?: boolean;
  json?: boolean;
}

const noAgent = 'name agents with --agent, or subscribe one: weir agent subscribe';
const refusals: Record<Exclude<EventReplayed['kind'] | JobCreated['kind'], 'done'>, string> = {
  unknown: 'no event has this id; see: weir event list',
  no_agent: `no agent is subscribed to the webhook; ${noAgent}`,
  agents_unknown: 'a named agent is not active; see: weir agent list',
  full: 'too many jobs are unfinished; see: weir job list',
};

/** Matching events that are counted before the question. */
const COUNTED_MAX = 1_000_000;
const LOOK_EVERY_MS = 500;
/** A job that is queued for longer is explained. */
const QUEUED_MS = 10_000;

/** Adds the arguments of `weir event replay` to a command with the filters of `list`. */
export function replayCommand(io: CommandIo, command: Command): Command {
  return command
    .description('deliver events again: the one with this id, or all that match the filters, as a job')
    .argument('[id]', 'id of the event', uuid)
    .option('--agent <id>', 'to this agent instead of every subscribed one; may be repeated', uuids)
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON document')
    .action((id: string | undefined, { agent, yes, json, ...given }: Options) => {
      const isFiltered = Object.keys(given).length > 0;
      if (id !== undefined && isFiltered) throw new CommandError('give the id of an event, or filters, not both', 2);
      if (id === undefined && !isFiltered)
        throw new CommandError('give the id of an event, or a filter such as --from, --webhook or --type', 2);
      const agentIds = agent ?? null;
      return withDatabase(io, ({ database }) =>
        id === undefined
          ? replayMany(io, database, given, agentIds, { yes: yes === true, json: json === true })
          : replayOne(io, database, id, agentIds, json === true),
      );
    });
}

async function replayOne(io: CommandIo, database: Database, id: string, agentIds: string[] | null, json: boolean) {
  const replayed: EventReplayed = isTimedId(id)
    ? await replayEvent(database, commandActor(), id, agentIds)
    : { kind: 'unknown' };
  if (replayed.kind !== 'done') throw new CommandError(refusals[replayed.kind]);
  const { deliveryIds } = replayed;
  if (json) printJson(io, { id, delivery_ids: deliveryIds });
  else printText(io, `${id}: ${deliveryIds.length} new ${deliveryIds.length === 1 ? 'delivery' : 'deliveries'}.\n`);
}

async function replayMany(
  io: CommandIo,
  database: Database,
  given: FilterOptions,
  agentIds: string[] | null,
  { yes, json }: { yes: boolean; json: boolean },
) {
  const filter = filtersOf(given);
  const counting = { ...eventFilterOf(filter, null, null), limit: COUNTED_MAX };
  // The search limit cannot be reached: this is the only search in this process.
  const { count, exact } = (await new EventSearch(database, Number.POSITIVE_INFINITY).count(counting))!;
  if (count === 0) throw new CommandError('no event matches; see: weir event list');
  const many = `${exact ? '' : 'more than '}${count} ${count === 1 ? 'event' : 'events'}`;
  const to =
    agentIds === null ? 'every subscribed agent' : `${agentIds.length} ${agentIds.length === 1 ? 'agent' : 'agents'}`;
  if (!yes && !(await isConfirmed(io, `Filters of subscriptions do not apply. Replay ${many} to ${to}? [y/N] `)))
    throw new CommandError('nothing was replayed; --yes does not ask');
  const created = await createReplayJob(database, commandActor(), { filter, agentIds });
  if (created.kind !== 'done') throw new CommandError(refusals[created.kind]);
  const job = await watch(io, database, created.id, count);
  if (json) printJson(io, job);
  else if (job.state === 'done')
    printText(io, `Replayed ${job.events} events: ${job.deliveries} new deliveries. Job ${job.id}\n`);
  else if (job.finished_at === null)
    printText(
      io,
      `Job ${job.id} continues.\n  Progress  ${weirCommand()} job list\n  Cancel    ${weirCommand()} job cancel ${job.id}\n`,
    );
  if (job.state === 'failed' || job.state === 'cancelled')
    throw new CommandError(`job ${job.id} was ${job.state} after ${job.events} events${reasonOf(job)}`);
}

const reasonOf = ({ reason }: JobRecord) => (reason === null ? '' : `: ${reason}`);

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
async function watch(io: CommandIo, database: Database, id: string, count: number): Promise<JobRecord> {
  const interrupted = new AbortController();
  const onInterrupt = () => interrupted.abort();
  process.once('SIGINT', onInterrupt);
  const shown = showJobProgress(count, io.stderr);
  const startedMs = performance.now();
  let isExplained = false;
  try {
    for (;;) {
      const job = await findJob(database.query, id);
      if (job === undefined) throw new CommandError(`job ${id} is gone`);
      shown.progress(job.events);
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
