#!/usr/bin/env node
/** The command line: `weir COMMAND`. */
import { runProgram } from './command/run.ts';
import { commands } from './commands.ts';

await runProgram(commands);
