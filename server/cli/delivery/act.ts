/** `weir delivery replay|dismiss|undo`. */
import { type Command, Option } from 'commander';
import { actOnMany, actOnOne, undoMany } from '../../api/deliveries/replay.ts';
import { commandActor } from '../../audit/actor.ts';
import { isTimedId } from '../../db/ids.ts';
import type { Database } from '../../db/pool.ts';
import { UNDO_HOURS } from '../../db/queries/delivery-actions.ts';
import type { ActionKind, ActionOrder } from '../../db/queries/replay.ts';
import { isOfOneAgent } from '../../resources/dead-letters.ts';
import { uuid } from '../arguments.ts';
import { CommandError, type CommandIo, printJson, printText } from '../io.ts';
import { withDatabase } from '../session.ts';

interface ActOptions {
  agent?: string;
  allAgents?: boolean;
  webhook?: string;
  reason?: string;
  state?: 'dead' | 'done' | 'dismissed' | 'filtered';
  json?: boolean;
}

const actions = {
  replay: { name: 'replay', done: ['delivery is pending again', 'deliveries are pending again'], of: 'finished' },
  dismissal: { name: 'dismiss', done: ['delivery is dismissed', 'deliveries are dismissed'], of: 'dead' },
} as const;

/** Adds the commands that change deliveries. */
export function addActions(command: Command, io: CommandIo): void {
  addAction(
    command,
    io,
    'replay',
    'replay one finished delivery, or all deliveries of an agent (or of all agents) in a state; attempts start again from zero',
  ).addOption(
    new Option('--state <state>', 'in this state').choices(['dead', 'done', 'dismissed', 'filtered']).default('dead'),
  );
  addAction(command, io, 'dismissal', 'end one dead delivery, or all of an agent (or of all agents), without a replay');

  command
    .command('undo')
    .description(
      `undo a replay or dismissal of many deliveries, within ${UNDO_HOURS} hours; claimed ones stay as they are`,
    )
    .argument('<action>', 'id that the command or the response of the API showed', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: { json?: boolean }) =>
      withDatabase(io, async ({ database }) => {
        const undone = await undoMany(database, commandActor(), id);
        if (undone === null)
          throw new CommandError(`no action of the last ${UNDO_HOURS} hours that was not undone has the id ${id}`);
        const { restored, others } = undone;
        if (json) return printJson(io, { restored, others });
        const kept = others === 0 ? '' : ` ${others} were claimed or changed since and stay as they are.`;
        printText(io, `${restored} ${restored === 1 ? 'delivery is' : 'deliveries are'} restored.${kept}\n`);
      }),
    );
}

function addAction(command: Command, io: CommandIo, kind: ActionKind, description: string): Command {
  const { name, done, of } = actions[kind];
  return command
    .command(name)
    .description(description)
    .argument('[id]', 'id of the delivery', uuid)
    .option('--agent <id>', 'all deliveries of this agent', uuid)
    .option('--all-agents', 'all deliveries of all agents')
    .option('--webhook <id>', 'only of this webhook', uuid)
    .option('--reason <reason>', 'only with exactly this reason')
    .option('--json', 'print one JSON document')
    .action((id: string | undefined, options: ActOptions) => {
      const many = options.agent !== undefined || options.allAgents === true;
      if ((id === undefined) !== many || (options.agent !== undefined && options.allAgents))
        throw new CommandError('give the id of one delivery, or --agent or --all-agents for many', 2);
      if (options.allAgents && isOfOneAgent(options.state ?? 'dead'))
        throw new CommandError(`give --agent: ${options.state} deliveries are replayed for one agent at a time`, 2);
      return withDatabase(io, async ({ database }) => {
        const { count, actionIds } =
          id === undefined ? await actOnAll(database, orderOf(kind, options)) : await actOnThis(database, kind, id);
        if (id !== undefined && count === 0) throw new CommandError(`no ${of} delivery has the id ${id}`);
        const result = kind === 'replay' ? { replayed: count } : { dismissed: count };
        if (options.json) return printJson(io, { ...result, action_ids: actionIds });
        const undo = actionIds.map((actionId) => `Undo: weir delivery undo ${actionId}\n`).join('');
        printText(io, `${count} ${count === 1 ? done[0] : done[1]}.\n${undo}`);
      });
    });
}

interface Acted {
  count: number;
  actionIds: string[];
}

function orderOf(kind: ActionKind, { agent, webhook, state = 'dead', reason }: ActOptions): ActionOrder {
  return { kind, state, agentId: agent ?? null, webhookId: webhook ?? null, reason };
}

async function actOnThis(database: Database, kind: ActionKind, id: string): Promise<Acted> {
  const acted = isTimedId(id) ? await actOnOne(database, commandActor(), kind, id) : null;
  return { count: Number(acted?.kind === 'done'), actionIds: [] };
}

/** Acts in batches on what is finished when the first one begins; each batch is recorded in the audit log. */
async function actOnAll(database: Database, order: ActionOrder): Promise<Acted> {
  const all: Acted = { count: 0, actionIds: [] };
  let finishedBefore: string | undefined;
  for (;;) {
    const portion = await actOnMany(database, commandActor(), { ...order, finishedBefore });
    if (portion === null) throw new CommandError(`no agent has the id ${order.agentId}; see: weir agent list`);
    all.count += portion.count;
    if (portion.actionId !== null) all.actionIds.push(portion.actionId);
    if (!portion.more) return all;
    finishedBefore = portion.finishedBefore;
  }
}
