/** Progress bar for commands that take a long time. */
import { Presets, SingleBar } from 'cli-progress';
import type { CommandIo } from './io.ts';

/** @param format cli-progress format, such as `{bar} {value}/{total}` */
export function openBar(format: string, stderr: CommandIo['stderr']): SingleBar {
  return new SingleBar(
    {
      stream: stderr,
      format,
      hideCursor: true,
      // The command handles Ctrl-C itself, because it prints a summary.
      gracefulExit: false,
    },
    Presets.shades_classic,
  );
}
