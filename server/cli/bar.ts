/** A bar on a terminal, as commands that take their time show it. */
import { Presets, SingleBar } from 'cli-progress';
import type { CommandIo } from './io.ts';

/** @param format in the words of cli-progress, such as `{bar} {value}/{total}` */
export function openBar(format: string, stderr: CommandIo['stderr']): SingleBar {
  return new SingleBar(
    {
      stream: stderr,
      format,
      hideCursor: true,
      // Ctrl-C is the command's: it has a summary to print.
      gracefulExit: false,
    },
    Presets.shades_classic,
  );
}
