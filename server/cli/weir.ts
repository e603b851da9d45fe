#!/usr/bin/env node
/** The command line: `weir COMMAND`. Exit codes: 0 done, 1 failure, 2 wrong usage. */
import { realpathSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Command, CommanderError } from 'commander';
import { agentCommand } from './agent.ts';
import { auditCommand } from './audit.ts';
import { benchCommand } from './bench.ts';
import { consumeCommand } from './consume.ts';
import { deliveryCommand } from './delivery.ts';
import { docsCommand } from './docs.ts';
import { doctorCommand } from './doctor.ts';
import { eventCommand } from './event.ts';
import { describeFailure } from './failure.ts';
import { CommandError, type CommandIo, outliveReaders, printText, tellText } from './io.ts';
import { keysCommand } from './keys.ts';
import { migrateCommand } from './migrate.ts';
import { rejectionCommand } from './rejection.ts';
import { sendCommand } from './send.ts';
import { startCommand } from './start.ts';
import { tokenCommand } from './token.ts';
import { userCommand } from './user.ts';
import { webhookCommand } from './webhook.ts';

/** Runs one command; resolves with the exit code. Failures are printed on stderr in one sentence. */
export async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  let exitCode = 0;
  const program = new Command('weir')
    .description('Weir receives webhooks: verified, committed, then answered.')
    .addCommand(
      startCommand(io, (code) => {
        exitCode = code;
      }),
    )
    .addCommand(migrateCommand(io))
    .addCommand(webhookCommand(io))
    .addCommand(agentCommand(io))
    .addCommand(tokenCommand(io))
    .addCommand(auditCommand(io))
    .addCommand(userCommand(io))
    .addCommand(eventCommand(io))
    .addCommand(deliveryCommand(io))
    .addCommand(rejectionCommand(io))
    .addCommand(sendCommand(io))
    .addCommand(consumeCommand(io))
    .addCommand(benchCommand(io))
    .addCommand(keysCommand(io))
    .addCommand(doctorCommand(io))
    .addCommand(docsCommand(io), { hidden: true });
  for (const command of [program, ...allCommands(program)])
    command.exitOverride().configureOutput({
      writeOut: (text) => printText(io, text),
      writeErr: (text) => tellText(io, text),
    });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof CommandError) {
      if (error.message !== '') tellText(io, `weir: ${error.message}\n`);
      return error.exitCode;
    }
    tellText(io, `${describeFailure(error)}\n`);
    return 1;
  }
}

function allCommands(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...allCommands(child)]);
}

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1] ?? '')).href) {
  outliveReaders([process.stdout, process.stderr]);
  process.exitCode = await runCommand(process.argv.slice(2), {
    environment: process.env,
    directory: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
  });
}
