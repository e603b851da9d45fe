#!/usr/bin/env node
/** The command line: `weir COMMAND`. */
import { runProgram } from './command/run-command.ts';
import { commands } from './commands.ts';

await runProgram(commands);
