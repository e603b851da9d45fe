import type { Command } from 'commander';
import { printText } from '../../base/command/io.ts';
import { writeDocs } from '../../operate/docs/generate.ts';
import type { Define } from '../command/program.ts';

/** `weir docs`, for developers: writes the tables of the code into README.md, the guides and .env.example. */
export const defineDocs: Define = (command: Command, io, whole) => {
  command.action(async () => {
    const written = writeDocs(io.directory, await whole());
    printText(io, written.length === 0 ? 'The documents are up to date.\n' : `Wrote ${written.join(' and ')}.\n`);
  });
};
