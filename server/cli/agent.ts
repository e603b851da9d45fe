import type { Command } from 'commander';
import { Agents } from '../api/agents/service.ts';
import type { Change } from '../api/change.ts';
import { checked } from '../api/input.ts';
import { commandActor } from '../audit/actor.ts';
import { Changes } from '../db/announce.ts';
import { agentInput } from '../resources/agents.ts';
import { printAgent, printAgents } from './agent/print.ts';
import { nullForNone, uuid, uuids, wholeNumberOrNone } from './arguments.ts';
import { clientCommand } from './client-command.ts';
import { CommandError, type CommandIo, printJson, printText } from './io.ts';
import { type CommandSession, made, withDatabase, withInput } from './session.ts';

interface Output {
  json?: boolean;
}

interface Given {
  maxLeased?: number | 'none';
}

const maxLeased = [
  '--max-leased <count>',
  'limit on its deliveries under lease at a time; none: no limit',
  wholeNumberOrNone,
] as const;

/** `weir agent add|update|list|show|subscribe|unsubscribe|rotate|revoke`. */
export function defineAgent(command: Command, io: CommandIo): void {
  command
    .command('add')
    .description('create an agent and print its credential, once')
    .requiredOption('--name <name>', 'display name')
    .option('--webhook <id>', 'subscribe it to this webhook; may be repeated', uuids)
    .option(...maxLeased)
    .option('--json', 'print one JSON document')
    .action(({ name, webhook, maxLeased, json }: Output & Given & { name: string; webhook?: string[] }) =>
      withAgents(io, async (agents, { settings }) => {
        const input = checked(agentInput.create, { name, webhook_ids: webhook, max_leased: nullForNone(maxLeased) });
        const { credential, ...agent } = known('', await agents.add(input));
        if (json) return printJson(io, { id: agent.id, name: agent.name, credential, webhook_ids: agent.webhook_ids });
        printText(
          io,
          `Agent ${agent.name} created.\n  ID          ${agent.id}\n  Credential  ${credential}   (shown once)\n`,
        );
        const consume = `${clientCommand(io, settings)} consume ${settings.FRONTEND_PUBLIC_API_URL}`;
        printText(io, `\nStore the credential in a file, then:  ${consume} --credential-file FILE\n`);
      }),
    );

  command
    .command('update')
    .description('change the name or the limit of an agent')
    .argument('<id>', 'id of the agent', uuid)
    .option('--name <name>', 'display name')
    .option(...maxLeased)
    .option('--json', 'print one JSON document')
    .action((id: string, { name, maxLeased, json }: Output & Given & { name?: string }) =>
      withAgents(io, async (agents) => {
        if (name === undefined && maxLeased === undefined)
          throw new CommandError('nothing to change: give --name or --max-leased', 2);
        const agent = known(
          id,
          await agents.update(id, checked(agentInput.update, { name, max_leased: nullForNone(maxLeased) })),
        );
        if (json) return printJson(io, agent);
        printText(io, `${id}: updated.\n`);
      }),
    );

  command
    .command('list')
    .description('show all agents, newest first')
    .option('--json', 'print one JSON document')
    .action(({ json }: Output) => withAgents(io, (agents, { database }) => printAgents(io, agents, database, json)));

  command
    .command('show')
    .description('show one agent with its subscriptions and their filters')
    .argument('<id>', 'id of the agent', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withAgents(io, (agents, { database }) => printAgent(io, agents, database, id, json)),
    );

  addSubscriptionCommands(command, io);

  command
    .command('rotate')
    .description('replace the credential and print the new one, once; all sessions end')
    .argument('<id>', 'id of the agent', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withAgents(io, async (agents) => {
        const { credential } = known(id, await agents.rotate(id));
        if (json) return printJson(io, { id, credential });
        printText(
          io,
          `${id}: credential rotated; the old one and all sessions are invalid.\n  Credential  ${credential}   (shown once)\n`,
        );
      }),
    );

  command
    .command('revoke')
    .description('revoke its credential and sessions permanently; its deliveries are kept')
    .argument('<id>', 'id of the agent', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withAgents(io, async (agents) => {
        known(id, await agents.revoke(id));
        if (json) return printJson(io, { id, done: 'revoke' });
        printText(io, `${id}: revoked.\n`);
      }),
    );
}

interface SubscribeOptions extends Output {
  webhook: string[];
  filter?: string;
}

function addSubscriptionCommands(command: Command, io: CommandIo): void {
  const report = (id: string, done: string, { webhook, filter, json }: SubscribeOptions) => {
    const filtered = filter === undefined ? {} : { filter: filter || null };
    if (json) printJson(io, { id, done, webhook_ids: webhook, ...filtered });
    else printText(io, `${id}: ${done}d.\n`);
  };

  command
    .command('subscribe')
    .description('subscribe an agent to webhooks; their new events become its deliveries')
    .argument('<id>', 'id of the agent', uuid)
    .requiredOption('--webhook <id>', 'this webhook; may be repeated', uuids)
    .option('--filter <expression>', "deliver only events for which this CEL expression is true; '' removes the filter")
    .option('--json', 'print one JSON document')
    .action((id: string, options: SubscribeOptions) =>
      withAgents(io, async (agents) => {
        const { webhook, filter } = options;
        const given = filter === undefined ? undefined : checked(agentInput.subscription, { filter: filter || null });
        known(id, await agents.subscribe(id, webhook, given?.filter));
        report(id, 'subscribe', options);
      }),
    );

  command
    .command('unsubscribe')
    .description('unsubscribe an agent from webhooks; its deliveries are kept')
    .argument('<id>', 'id of the agent', uuid)
    .requiredOption('--webhook <id>', 'this webhook; may be repeated', uuids)
    .option('--json', 'print one JSON document')
    .action((id: string, options: SubscribeOptions) =>
      withAgents(io, async (agents) => {
        known(id, await agents.unsubscribe(id, options.webhook));
        report(id, 'unsubscribe', options);
      }),
    );
}

function withAgents(io: CommandIo, work: (agents: Agents, session: CommandSession) => Promise<void>): Promise<void> {
  return withDatabase(io, (session) => {
    const { database, conninfo } = session;
    return withInput(() => work(new Agents({ database, changes: new Changes(conninfo) }, commandActor()), session));
  });
}

function known<T>(id: string, change: Change<T>): T {
  return made(change, `no active agent has the id ${id}; see: weir agent list`);
}
