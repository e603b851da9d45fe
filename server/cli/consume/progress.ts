/** Shows the progress of `weir consume` on standard error: a status line on a terminal, and messages everywhere. */

import { visible, visibleLine } from '../../telemetry/visible.ts';
import type { CommandIo } from '../io.ts';
import type { Trouble } from './repeat.ts';
import { type ConsumeTally, progressLine } from './tally.ts';

const REDRAWN_EVERY_MS = 200;
const COLUMNS_DEFAULT = 80;
const CLEAR_LINE = '\r\x1b[K';

type Stream = CommandIo['stderr'];

export interface ConsumeProgress extends Trouble {
  /** Prints a permanent line. */
  report: (line: string) => void;
  /** Writes to a stream that may be the same terminal. Resolves after the write, with the error if it failed. */
  write: (stream: Stream, chunk: Buffer | string) => Promise<Error | null>;
  stop: () => void;
}

export function showConsumeProgress(tally: ConsumeTally, stderr: Stream & { columns?: number }): ConsumeProgress {
  const terminal = stderr.isTTY === true;
  let shown = '';
  // Command output may end in the middle of a line, which must not be overwritten.
  let lineOpen = false;
  const draw = () => {
    // One column stays free, because a full line would wrap. Some terminals report a width of zero columns.
    const text = visibleLine(progressLine(tally)).slice(0, (stderr.columns || COLUMNS_DEFAULT) - 1);
    if (text === shown || lineOpen) return;
    stderr.write(`${CLEAR_LINE}${text}`);
    shown = text;
  };
  const clear = () => {
    if (shown !== '') stderr.write(CLEAR_LINE);
    shown = '';
  };
  const timer = terminal ? setInterval(draw, REDRAWN_EVERY_MS) : undefined;
  if (terminal) draw();

  const report = (line: string) => {
    clear();
    stderr.write(`${lineOpen ? '\n' : ''}${visible(line)}\n`);
    lineOpen = false;
    if (terminal) draw();
  };
  let inTrouble = false;
  return {
    report,
    write: (stream, chunk) => {
      if (terminal && stream.isTTY === true) {
        clear();
        lineOpen = chunk.at(-1) !== 0x0a && chunk.at(-1) !== '\n';
      }
      return new Promise((written) => void stream.write(chunk, (error) => written(error ?? null)));
    },
    waiting: (cause, afterMs) => {
      tally.lastError = cause;
      // Report each outage once: it may have many attempts.
      if (!inTrouble) report(`${cause}: next attempt in ${(afterMs / 1000).toFixed(1)} s.`);
      inTrouble = true;
    },
    over: () => {
      if (inTrouble) report('The server is available again.');
      inTrouble = false;
    },
    stop: () => {
      clearInterval(timer);
      clear();
      if (lineOpen) stderr.write('\n');
    },
  };
}
