/** `weir delivery replay|dismiss|undo`. */
import { Option } from 'commander';
import { CommandError, printMessage } from '../../../base/command/io.ts';
import { needsOneAgent } from '../../../model/events.ts';
import type { Call } from '../call.ts';
import { idOf, idOfGiven } from '../lists.ts';
import { type Given, type OptionRow, type Row, row } from '../row.ts';

interface ActOptions {
  agent?: string;
  allAgents?: boolean;
  webhook?: string;
  reason?: string;
  state?: 'dead' | 'done' | 'dismissed' | 'filtered';
  json?: boolean;
}

/** One delivery, or the sum of the answers for many. */
interface Acted {
  /** The answer of the operation: the delivery, or for many the answer of the last request with the sum of all requests. */
  answer: object;
  count: number;
  actionIds: string[];
}

const scope: readonly OptionRow[] = [
  ['--agent <agent>', 'all deliveries of this agent, by id or name'],
  ['--all-agents', 'all deliveries of all agents'],
  ['--webhook <webhook>', 'only of this webhook, by id or name'],
  ['--reason <reason>', 'only with exactly this reason'],
];

/** Throws CommandError unless the options say either one delivery or many. */
function checkScope(id: string, { agent, allAgents, state = 'dead' }: ActOptions): void {
  const many = agent !== undefined || allAgents === true;
  if ((id === '') !== many || (agent !== undefined && allAgents))
    throw new CommandError('give the id of one delivery, or --agent or --all-agents for many', 2);
  if (allAgents && needsOneAgent(state))
    throw new CommandError(`give --agent: ${state} deliveries are replayed for one agent at a time`, 2);
}

/** Acts on one delivery, or in batches on those that are finished when the first batch begins. The audit log records each batch. */
async function actOn(
  call: Call,
  { id, options: { agent, webhook, reason, state, json }, io }: Given<ActOptions>,
  one: 'replayDelivery' | 'dismissDelivery',
  many: 'replayDeliveries' | 'dismissDeliveries',
): Promise<Acted> {
  if (id !== '') return { answer: await call(one, { id }), count: 1, actionIds: [] };
  const agent_id = agent === undefined ? null : await idOf(call, 'agent', agent);
  const webhook_id = (await idOfGiven(call, 'webhook', webhook)) ?? null;
  const acted: Acted = { answer: {}, count: 0, actionIds: [] };
  for (let finished_before: string | undefined; ; ) {
    const batch = await call(many, { input: { agent_id, webhook_id, reason, state, finished_before } }).catch(
      (error) => {
        printMessage(io, undoLines(acted.actionIds));
        throw error;
      },
    );
    acted.count += 'replayed' in batch ? batch.replayed : batch.dismissed;
    acted.answer = { ...batch, ['replayed' in batch ? 'replayed' : 'dismissed']: acted.count };
    if (batch.action_id !== null) acted.actionIds.push(batch.action_id);
    if (!batch.more) break;
    finished_before = batch.finished_before;
  }
  // The document has the action of the last batch only.
  if (json) printMessage(io, undoLines(acted.actionIds.slice(0, -1)));
  return acted;
}

function undoLines(actionIds: readonly string[]): string {
  return actionIds.map((actionId) => `Undo: weir delivery undo ${actionId}\n`).join('');
}

const target = { argument: 'id', description: 'id of the delivery', optional: true } as const;
const json = ({ answer }: Acted) => answer;

function text({ count, actionIds }: Acted, done: string): string {
  return `${count} ${count === 1 ? 'delivery is' : 'deliveries are'} ${done}.\n${undoLines(actionIds)}`;
}

export const actionRows: readonly Row[] = [
  row<ActOptions>()({
    name: 'replay',
    description:
      'replay one finished delivery, or all deliveries of an agent (or of all agents) in a state; attempts start again from zero',
    target,
    options: [
      ...scope,
      new Option('--state <state>', 'in this state').choices(['dead', 'done', 'dismissed', 'filtered']).default('dead'),
    ],
    check: checkScope,
    run: (call, given) => actOn(call, given, 'replayDelivery', 'replayDeliveries'),
    json,
    text: (acted) => text(acted, 'pending again'),
  }),

  row<ActOptions>()({
    name: 'dismiss',
    description: 'end one dead delivery, or all of an agent (or of all agents), without a replay',
    target,
    asks: 'dismissDeliveries',
    options: scope,
    check: checkScope,
    run: (call, given) => actOn(call, given, 'dismissDelivery', 'dismissDeliveries'),
    json,
    text: (acted) => text(acted, 'dismissed'),
  }),

  row()({
    name: 'undo',
    description: 'undo a replay or dismissal of many deliveries, within 24 hours; claimed ones stay as they are',
    target: { argument: 'action', description: 'id that the command or the response of the API showed' },
    run: (call, { id }) => call('undoDeliveries', { input: { action_id: id } }),
    text: ({ restored, others }) => {
      const kept = others === 0 ? '' : ` ${others} were claimed or changed since and stay as they are.`;
      return `${restored} ${restored === 1 ? 'delivery is' : 'deliveries are'} restored.${kept}\n`;
    },
  }),
];
