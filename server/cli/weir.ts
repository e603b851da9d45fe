#!/usr/bin/env node
import { runProgram } from './command/run.ts';
/** The command line: `weir COMMAND`. */
import { commands } from './commands.ts';

await runProgram(commands);
