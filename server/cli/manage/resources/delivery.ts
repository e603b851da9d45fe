/** `weir delivery list|show|dead|replay|dismiss|undo`. */
import { Option } from 'commander';
import { itemsTable, membersText, type TableCell } from '../../../base/command/io.ts';
import { deliveryStates } from '../../../model/events.ts';
import { time, wholeNumber } from '../../command/arguments.ts';
import { idOfGiven, namesOf, readList } from '../lists.ts';
import { type OptionRow, type Row, row } from '../row.ts';
import { actionRows } from './delivery-act.ts';

interface Scope {
  agent?: string;
  webhook?: string;
}

const scope: readonly OptionRow[] = [
  ['--agent <agent>', 'of this agent, by id or name'],
  ['--webhook <webhook>', 'of this webhook, by id or name'],
];

export const rows: readonly Row[] = [
  row<Scope & { state?: string; held?: true; from?: string; to?: string; limit: number }>()({
    name: 'list',
    description: 'show the newest deliveries',
    options: [
      ...scope,
      new Option('--state <state>', 'in this state').choices(deliveryStates),
      ['--held', 'only those that wait for another delivery with their key'],
      ['--from <time>', 'of events received at or after this time', time],
      ['--to <time>', 'of events received before this time', time],
      ['--limit <deliveries>', 'maximum number', wholeNumber(), 20],
    ],
    run: async (call, { options: { agent, webhook, state, held, from, to, limit } }) => {
      const agent_id = await idOfGiven(call, 'agent', agent);
      const webhook_id = await idOfGiven(call, 'webhook', webhook);
      return readList(call, 'listDeliveries', { agent_id, webhook_id, state, held, from, to }, limit);
    },
    list: {
      columns: ['ID', 'EVENT', 'AGENT', 'STATE', 'ATTEMPTS', 'REASON'],
      names: true,
      cells: ['id', 'event_id', ({ agent_id }, named) => named(agent_id), 'state', 'attempts', 'reason'],
      whenEmpty: 'No matching deliveries.',
    },
  }),

  row<{ json?: true }>()({
    name: 'show',
    description: 'show one delivery with its attempts, oldest first',
    target: { argument: 'id', description: 'id of the delivery' },
    run: async (call, { id, options }) => {
      const delivery = await call('showDelivery', { id });
      const names = options.json ? new Map<string, string>() : await namesOf(call, [delivery]);
      return { delivery, names, attempts: (await call('listAttempts', { id })).items };
    },
    json: ({ delivery }) => delivery,
    text: ({ delivery, names, attempts }) => {
      const named = (id: string) => (names.has(id) ? `${names.get(id)} (${id})` : id);
      const facts = {
        Event: delivery.event_id,
        Type: delivery.event_type,
        Webhook: named(delivery.webhook_id),
        Agent: named(delivery.agent_id),
        State: delivery.state,
        Attempts: delivery.attempts,
        Received: delivery.received_at,
        Claimable: delivery.finished_at === null ? delivery.available_at : null,
        Finished: delivery.finished_at,
        Key: delivery.order_key && `${delivery.order_key}${delivery.held ? ', held by another delivery' : ''}`,
        Reason: delivery.reason,
      };
      const shown = membersText(Object.fromEntries(Object.entries(facts).filter(([, fact]) => fact !== null)));
      if (attempts.length === 0) return `${shown}\nNo attempts yet.\n`;
      const columns = ['TIME', 'AGENT ADDRESS', 'OUTCOME', 'DURATION', 'REASON'];
      const cells: readonly TableCell<(typeof attempts)[number]>[] = [
        ({ leased_at, at }) => leased_at ?? at,
        'agent_address',
        ['outcome', 'leased'],
        ({ duration_ms }) => (duration_ms === null ? '' : `${(duration_ms / 1000).toFixed(3)} s`),
        'reason',
      ];
      return `${shown}\n${itemsTable(columns, cells, attempts)}`;
    },
  }),

  row<Scope>()({
    name: 'dead',
    description: 'count dead letters by reason',
    options: scope,
    run: async (call, { options: { agent, webhook } }) => {
      const agent_id = await idOfGiven(call, 'agent', agent);
      const webhook_id = await idOfGiven(call, 'webhook', webhook);
      return call('groupDeadLetters', { query: { agent_id, webhook_id } });
    },
    list: {
      columns: ['DELIVERIES', 'AGENTS', 'LAST', 'REASON'],
      cells: ['deliveries', 'agents', 'last_at', 'reason'],
      whenEmpty: 'No dead letters.',
    },
    text: ({ complete }) => (complete ? '' : 'There are more: only the newest dead letters are counted.\n'),
  }),

  ...actionRows,
];
