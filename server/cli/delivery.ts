import { Command, Option } from 'commander';
import { type ManyOrder, replayMany, replayOne } from '../api/deliveries/replay.ts';
import { commandActor } from '../audit/actor.ts';
import { isTimedId } from '../db/ids.ts';
import type { Database } from '../db/pool.ts';
import { listDeliveries } from '../db/queries/deliveries.ts';
import { type DeliveryState, deliveryStates } from '../resources/events.ts';
import { positive, uuid } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface ListOptions {
  agent?: string;
  webhook?: string;
  state?: DeliveryState;
  limit: number;
  json?: boolean;
}

interface ReplayOptions {
  agent?: string;
  webhook?: string;
  state: 'dead' | 'done';
  json?: boolean;
}

/** `weir delivery list|replay`. */
export function deliveryCommand(io: CommandIo): Command {
  const command = new Command('delivery').description('show deliveries, and replay finished ones');

  command
    .command('list')
    .description('show the newest deliveries')
    .option('--agent <id>', 'of this agent', uuid)
    .option('--webhook <id>', 'of this webhook', uuid)
    .addOption(new Option('--state <state>', 'in this state').choices(deliveryStates))
    .option('--limit <deliveries>', 'maximum number', positive, 20)
    .option('--json', 'print one JSON document')
    .action((options: ListOptions) =>
      withDatabase(io, async ({ database }) => {
        const filter = {
          agentId: options.agent ?? null,
          webhookId: options.webhook ?? null,
          state: options.state ?? null,
        };
        const rows = await listDeliveries(database, filter, null, options.limit);
        if (options.json) printJson(io, { items: rows });
        else if (rows.length === 0) printText(io, 'No matching deliveries.\n');
        else
          printText(
            io,
            table(
              ['ID', 'EVENT', 'AGENT', 'STATE', 'ATTEMPTS', 'REASON'],
              rows.map((row) => [
                row.id,
                row.event_id,
                row.agent_id,
                row.state,
                String(row.attempts),
                row.reason ?? '',
              ]),
            ),
          );
      }),
    );

  command
    .command('replay')
    .description(
      'replay one delivery, or with --agent all deliveries of an agent in a state; attempts start again from zero',
    )
    .argument('[id]', 'id of the delivery', uuid)
    .option('--agent <id>', 'all deliveries of this agent', uuid)
    .option('--webhook <id>', 'only of this webhook', uuid)
    .addOption(new Option('--state <state>', 'in this state').choices(['dead', 'done']).default('dead'))
    .option('--json', 'print one JSON document')
    .action((id: string | undefined, options: ReplayOptions) => {
      if ((id === undefined) === (options.agent === undefined))
        throw new CommandError('give the id of one delivery, or --agent for all deliveries of an agent', 2);
      return withDatabase(io, async ({ database }) => {
        const replayed =
          id === undefined
            ? await replayAll(database, {
                agentId: options.agent!,
                state: options.state,
                webhookId: options.webhook ?? null,
              })
            : Number(isTimedId(id) && (await replayOne(database, commandActor(), id)).kind === 'done');
        if (id !== undefined && replayed === 0) throw new CommandError(`no dead or done delivery has the id ${id}`);
        if (options.json) printJson(io, { replayed });
        else printText(io, `${replayed} ${replayed === 1 ? 'delivery is' : 'deliveries are'} pending again.\n`);
      });
    });
  return command;
}

/** Replays in batches; each batch is recorded in the audit log. */
async function replayAll(database: Database, order: ManyOrder): Promise<number> {
  for (let sum = 0; ; ) {
    const portion = await replayMany(database, commandActor(), order);
    if (portion === null) throw new CommandError(`no agent has the id ${order.agentId}; see: weir agent list`);
    sum += portion.replayed;
    if (!portion.more) return sum;
  }
}
