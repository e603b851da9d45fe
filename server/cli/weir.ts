#!/usr/bin/env node
/** The command line: `weir COMMAND`. */
import { commands } from './commands.ts';
import { runProgram } from './run.ts';

await runProgram(commands);
