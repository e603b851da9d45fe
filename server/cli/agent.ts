import { Command } from 'commander';
import { Changes } from '../db/announce.ts';
import { commandActor } from '../manage/actor.ts';
import { Agents } from '../manage/agents.ts';
import { InputError } from '../manage/input.ts';
import { uuid, uuids } from './arguments.ts';
import { CommandError, type CommandIo } from './io.ts';
import { withDatabase } from './session.ts';
import { table } from './table.ts';

interface Output {
  json?: boolean;
}

/** `weir agent add|list|rotate|revoke`. */
export function agentCommand(io: CommandIo): Command {
  const command = new Command('agent').description('make and manage the programs that pull events');

  command
    .command('add')
    .description('make an agent and print its credential, once')
    .requiredOption('--name <name>', 'what people call it')
    .option('--webhook <id>', 'subscribe it to this endpoint; may be given several times', uuids)
    .option('--json', 'print one JSON document')
    .action(({ name, webhook, json }: Output & { name: string; webhook?: string[] }) =>
      withAgents(io, async (agents) => {
        const { credential, ...agent } = await agents.add(name, webhook ?? []);
        if (json) return print(io, { id: agent.id, name: agent.name, credential, webhook_ids: agent.webhook_ids });
        io.stdout.write(`Made ${agent.name}.\n  ID          ${agent.id}\n  Credential  ${credential}   (shown once)\n`);
        io.stdout.write(
          '\nKeep the credential in a file of its own, then:  npx weir consume URL --credential-file FILE\n',
        );
      }),
    );

  command
    .command('list')
    .description('show all agents')
    .option('--json', 'print one JSON document')
    .action(({ json }: Output) =>
      withAgents(io, async (agents) => {
        const rows = await agents.list();
        if (json) return print(io, { items: rows });
        if (rows.length === 0) io.stdout.write('No agents yet. Make one: npx weir agent add --name ci --webhook ID\n');
        else
          io.stdout.write(
            table(
              ['ID', 'NAME', 'STATE', 'ENDPOINTS', 'CREATED'],
              rows.map((row) => [
                row.id,
                row.name,
                row.revoked ? 'revoked' : 'in force',
                String(row.webhook_ids.length),
                row.created_at,
              ]),
            ),
          );
      }),
    );

  command
    .command('rotate')
    .description('print a new credential, once; the old one and all sessions end')
    .argument('<id>', 'id of the agent', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withAgents(io, async (agents) => {
        const credential = (await agents.rotate(id)) ?? unknown(id);
        if (json) return print(io, { id, credential });
        io.stdout.write(
          `${id}: the old credential and all sessions have ended.\n  Credential  ${credential}   (shown once)\n`,
        );
      }),
    );

  command
    .command('revoke')
    .description('end its credential and sessions for good; its deliveries stay')
    .argument('<id>', 'id of the agent', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withAgents(io, async (agents) => {
        if (!(await agents.revoke(id))) unknown(id);
        if (json) return print(io, { id, done: 'revoke' });
        io.stdout.write(`${id}: revoked.\n`);
      }),
    );
  return command;
}

function withAgents(io: CommandIo, work: (agents: Agents) => Promise<void>): Promise<void> {
  return withDatabase(io, async ({ database, conninfo }) => {
    try {
      await work(new Agents({ database, changes: new Changes(conninfo) }, commandActor()));
    } catch (error) {
      if (error instanceof InputError) throw new CommandError(error.message, 2);
      throw error;
    }
  });
}

function unknown(id: string): never {
  throw new CommandError(`no agent in force has the id ${id}; see: weir agent list`);
}

function print(io: CommandIo, value: unknown): void {
  io.stdout.write(`${JSON.stringify(value)}\n`);
}
