#!/usr/bin/env node
/** The command line: `weir COMMAND`. Exit codes: 0 done, 1 failure, 2 wrong usage. */
import { realpathSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Command, CommanderError } from 'commander';
import { DatabaseUnavailable } from '../db/pool.ts';
import { writeDocs } from '../docs/generate.ts';
import { runPrimary } from '../primary/primary.ts';
import { OperatorError } from '../settings/fault.ts';
import { readConfiguration } from '../settings/read.ts';
import { agentCommand } from './agent.ts';
import { alertCommand } from './alert.ts';
import { auditCommand } from './audit.ts';
import { backupCommand, restoreCommand } from './backup.ts';
import { benchCommand } from './bench.ts';
import { consumeCommand } from './consume.ts';
import { deliveryCommand } from './delivery.ts';
import { doctorCommand } from './doctor.ts';
import { eventCommand } from './event.ts';
import { filterCommand } from './filter.ts';
import { historyCommand } from './history.ts';
import { CommandError, type CommandIo, ignoreClosedOutputs, printJson, printMessage, printText } from './io.ts';
import { jobCommand } from './job.ts';
import { keysCommand } from './keys.ts';
import { listenCommand } from './listen.ts';
import { mcpCommand } from './mcp.ts';
import { metricsCommand } from './metrics.ts';
import { rejectionCommand } from './rejection.ts';
import { schemeCommand } from './scheme.ts';
import { sendCommand } from './send.ts';
import { withDatabase } from './session.ts';
import { spoolCommand } from './spool.ts';
import { tokenCommand } from './token.ts';
import { userCommand } from './user.ts';
import { webhookCommand } from './webhook.ts';

/** All commands. @param onExit called with the exit code of `weir start` */
export function buildProgram(io: CommandIo, onExit: (code: number) => void): Command {
  return new Command('weir')
    .description('Weir receives webhooks: verified, committed, then answered.')
    .addCommand(startCommand(io, onExit))
    .addCommand(migrateCommand(io))
    .addCommand(webhookCommand(io))
    .addCommand(agentCommand(io))
    .addCommand(filterCommand(io))
    .addCommand(tokenCommand(io))
    .addCommand(auditCommand(io))
    .addCommand(userCommand(io))
    .addCommand(eventCommand(io))
    .addCommand(deliveryCommand(io))
    .addCommand(rejectionCommand(io))
    .addCommand(alertCommand(io))
    .addCommand(historyCommand(io))
    .addCommand(jobCommand(io))
    .addCommand(schemeCommand(io))
    .addCommand(sendCommand(io))
    .addCommand(consumeCommand(io))
    .addCommand(listenCommand(io))
    .addCommand(mcpCommand(io))
    .addCommand(benchCommand(io))
    .addCommand(keysCommand(io))
    .addCommand(metricsCommand(io))
    .addCommand(backupCommand(io))
    .addCommand(restoreCommand(io))
    .addCommand(spoolCommand(io))
    .addCommand(doctorCommand(io))
    .addCommand(docsCommand(io), { hidden: true });
}

/** Runs one command; resolves with the exit code. Failures are printed on stderr in one sentence. */
export async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  let exitCode = 0;
  const program = buildProgram(io, (code) => {
    exitCode = code;
  });
  for (const command of [program, ...allCommands(program)])
    command.exitOverride().configureOutput({
      writeOut: (text) => printText(io, text),
      writeErr: (text) => printMessage(io, text),
    });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof CommandError) {
      if (error.message !== '') printMessage(io, `weir: ${error.message}\n`);
      return error.exitCode;
    }
    printMessage(io, `${describeFailure(error)}\n`);
    return 1;
  }
}

function allCommands(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...allCommands(child)]);
}

/** Returns the message alone for an expected error, and the stack for a bug. */
function describeFailure(error: unknown): string {
  if (error instanceof OperatorError)
    return error.message
      .split('\n')
      .map((line) => `weir: ${line}`)
      .join('\n');
  if (error instanceof DatabaseUnavailable)
    return `weir: the database stopped answering; try again when it is back: ${error.message.trim().replace(/\s+/g, ' ')}`;
  return `weir: unexpected failure, please report it: ${error instanceof Error ? error.stack : String(error)}`;
}

/** `weir docs`, for developers: writes the tables of the code into README.md and .env.example. */
function docsCommand(io: CommandIo): Command {
  const command = new Command('docs').description('generate the tables in README.md and .env.example');
  return command.action(() => {
    const written = writeDocs(io.directory, command.parent!);
    printText(io, written.length === 0 ? 'The documents are up to date.\n' : `Wrote ${written.join(' and ')}.\n`);
  });
}

/** `weir start`: serves until a signal stops it. */
function startCommand(io: CommandIo, onExit: (code: number) => void): Command {
  return new Command('start').description('run the service').action(async () => {
    onExit(await runPrimary(() => readConfiguration(io.environment, io.directory), io.stdout.isTTY === true));
  });
}

/** `weir migrate`: upgrades the schema to this release. `weir start` does the same. */
function migrateCommand(io: CommandIo): Command {
  return new Command('migrate')
    .description('migrate the database schema to this release')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) =>
      withDatabase(io, async ({ migrated }) => {
        if (json) printJson(io, { applied: migrated });
        else printText(io, migrated.length === 0 ? 'The schema is up to date.\n' : `Applied ${migrated.join(', ')}.\n`);
      }),
    );
}

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1] ?? '')).href) {
  ignoreClosedOutputs([process.stdout, process.stderr]);
  process.exitCode = await runCommand(process.argv.slice(2), {
    environment: process.env,
    directory: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
  });
}
