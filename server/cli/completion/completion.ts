import { type Command, InvalidArgumentError } from 'commander';
import { printText } from '../../base/command/io.ts';
import type { Define } from '../command/program.ts';
import { type Shell, scripts } from './scripts.ts';

/** `weir completion SHELL`: the script contains all words, so that completing starts no process. */
export const defineCompletion: Define = (command: Command, io, whole) => {
  command
    .argument('<shell>', `one of ${Object.keys(scripts).join(', ')}`, parseShell)
    .action(async (shell: Shell) => printText(io, scripts[shell](await whole())));
};

function parseShell(given: string): Shell {
  if (!Object.hasOwn(scripts, given)) throw new InvalidArgumentError(`give one of ${Object.keys(scripts).join(', ')}.`);
  return given as Shell;
}
