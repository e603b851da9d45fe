#!/usr/bin/env node
/** The command line of the client package, for machines without Weir: senders, agents and developers. */
import { clientCommands } from './client-commands.ts';
import { runProgram } from './command/run-command.ts';
import { managementCommands } from './manage/commands.ts';

await runProgram([...managementCommands(null), ...clientCommands]);
