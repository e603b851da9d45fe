import { Command } from 'commander';
import { writeDocs } from '../docs/generate.ts';
import { type CommandIo, printText } from './io.ts';

/** `weir docs`, for developers: writes the tables of the code into README.md and .env.example. */
export function docsCommand(io: CommandIo): Command {
  return new Command('docs').description('generate the tables in README.md and .env.example').action(() => {
    const written = writeDocs(io.directory);
    printText(io, written.length === 0 ? 'The documents are up to date.\n' : `Wrote ${written.join(' and ')}.\n`);
  });
}
