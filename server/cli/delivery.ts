import { type Command, Option } from 'commander';
import { isTimedId } from '../db/ids.ts';
import { groupDeadLetters } from '../db/queries/dead-letters.ts';
import { type DeliveryRecord, findDelivery, listDeliveries } from '../db/queries/deliveries.ts';
import { readAttempts } from '../db/queries/delivery-history.ts';
import type { Attempt } from '../resources/attempts.ts';
import { type DeliveryState, deliveryStates } from '../resources/events.ts';
import { positive, uuid } from './arguments.ts';
import { addActions } from './delivery/act.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface ListOptions {
  agent?: string;
  webhook?: string;
  state?: DeliveryState;
  limit: number;
  json?: boolean;
}

/** `weir delivery list|show|dead|replay|dismiss|undo`. */
export function defineDelivery(command: Command, io: CommandIo): void {
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
    .command('show')
    .description('show one delivery with its attempts, oldest first')
    .argument('<id>', 'id of the delivery', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: { json?: boolean }) =>
      withDatabase(io, async ({ database }) => {
        const delivery = isTimedId(id) ? await findDelivery(database, null, id) : undefined;
        if (delivery === undefined) throw new CommandError(`no delivery has the id ${id}; see: weir delivery list`);
        const attempts = (await readAttempts(database, { deliveryId: id }, Date.now())).get(id) ?? [];
        if (json) return printJson(io, { ...delivery, history: attempts });
        printText(io, `${describe(delivery)}\n`);
        if (attempts.length === 0) printText(io, 'No attempts yet.\n');
        else printText(io, table(['TIME', 'AGENT ADDRESS', 'OUTCOME', 'DURATION', 'REASON'], attempts.map(rowOf)));
      }),
    );

  command
    .command('dead')
    .description('count dead letters by reason')
    .option('--agent <id>', 'of this agent', uuid)
    .option('--webhook <id>', 'of this webhook', uuid)
    .option('--json', 'print one JSON document')
    .action(({ agent, webhook, json }: { agent?: string; webhook?: string; json?: boolean }) =>
      withDatabase(io, async ({ database }) => {
        const found = await groupDeadLetters(database, { agentId: agent ?? null, webhookId: webhook ?? null });
        if (json) return printJson(io, { items: found.groups, complete: found.complete });
        if (found.groups.length === 0) return printText(io, 'No dead letters.\n');
        const rows = found.groups.map((group) => [
          String(group.deliveries),
          String(group.agents),
          group.last_at,
          group.reason ?? '',
        ]);
        printText(io, table(['DELIVERIES', 'AGENTS', 'LAST', 'REASON'], rows));
        if (!found.complete) printText(io, 'There are more: only the newest dead letters are counted.\n');
      }),
    );

  addActions(command, io);
}

function describe(delivery: DeliveryRecord): string {
  const facts: [string, string | null][] = [
    ['Event', delivery.event_id],
    ['Type', delivery.event_type],
    ['Webhook', delivery.webhook_id],
    ['Agent', delivery.agent_id],
    ['State', delivery.state],
    ['Attempts', String(delivery.attempts)],
    ['Received', delivery.received_at],
    ['Finished', delivery.finished_at],
    ['Reason', delivery.reason],
  ];
  return facts.flatMap(([name, value]) => (value === null ? [] : `${name.padEnd(10)}${value}\n`)).join('');
}

function rowOf({ outcome, leased_at, at, agent_address, duration_ms, reason }: Attempt): string[] {
  const duration = duration_ms === null ? '' : `${(duration_ms / 1000).toFixed(3)} s`;
  return [leased_at ?? at ?? '', agent_address ?? '', outcome ?? 'leased', duration, reason ?? ''];
}
