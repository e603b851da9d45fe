import type { Command } from 'commander';
import { cancelReplayJob } from '../api/jobs/service.ts';
import { commandActor } from '../audit/actor.ts';
import { findJob, type JobRecord, listJobs } from '../db/queries/jobs.ts';
import { weirCommand } from '../files/command.ts';
import { positive, uuid } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printMembers, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface Output {
  json?: boolean;
}

/** `weir job list|show|cancel`. */
export function defineJob(command: Command, io: CommandIo): void {
  command
    .command('list')
    .description('show the newest jobs')
    .option('--limit <jobs>', 'maximum number', positive, 20)
    .option('--json', 'print one JSON document')
    .action(({ limit, json }: Output & { limit: number }) =>
      withDatabase(io, async ({ database }) => {
        const rows = await listJobs(database, null, limit);
        if (json) printJson(io, { items: rows });
        else if (rows.length === 0) printText(io, `No jobs. Create one: ${weirCommand()} event replay --from TIME\n`);
        else printText(io, table(columns, rows.map(rowOf)));
      }),
    );

  command
    .command('show')
    .description('show one job')
    .argument('<id>', 'id of the job', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withDatabase(io, async ({ database }) => {
        const job = await findJob(database.query, id);
        if (job === undefined) throw new CommandError(`no job has the id ${id}; see: weir job list`);
        if (json) return printJson(io, job);
        printMembers(io, job);
      }),
    );

  command
    .command('cancel')
    .description('end an unfinished job; the deliveries that it has created stay')
    .argument('<id>', 'id of the job', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withDatabase(io, async ({ database }) => {
        const cancelled = await cancelReplayJob(database, commandActor(), id);
        if (cancelled.kind === 'unknown') throw new CommandError(`no job has the id ${id}; see: weir job list`);
        if (cancelled.kind === 'finished') throw new CommandError('this job has already ended; see: weir job list');
        const { job } = cancelled;
        if (json) printJson(io, job);
        else printText(io, `${id}: cancelled after ${job.events} events and ${job.deliveries} deliveries.\n`);
      }),
    );
}

const columns = ['ID', 'STATE', 'PROGRESS', 'EVENTS', 'DELIVERIES', 'CREATED', 'REASON'];

function rowOf({ id, state, progress, events, deliveries, created_at, reason }: JobRecord): string[] {
  return [id, state, `${Math.floor(progress * 100)}%`, String(events), String(deliveries), created_at, reason ?? ''];
}
