#!/usr/bin/env node
/** The command line of the client package, for machines without Weir: senders, agents and developers. */
import { clientCommands } from './client-commands.ts';
import { managementCommands } from './manage/commands.ts';
import { runProgram } from './run.ts';

await runProgram([...managementCommands(null), ...clientCommands]);
