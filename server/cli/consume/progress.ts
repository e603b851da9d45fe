/** Counts the results of `weir consume`, and shows them on standard error: a status line on a terminal, and messages everywhere. */

import type { CommandIo } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import type { RunCounts } from '../../deliver/client/index.ts';

/** The `--json` document. */
export interface ConsumeSummary {
  claimed: number;
  /** Acknowledged. */
  done: number;
  /** Refused: delivered again, or moved to the dead letters. */
  failed: number;
  /** Leases lost before the delivery was settled; these deliveries come again. */
  gone: number;
  /** Claimed, but in none of the states above: their leases expire, and they come again. */
  unsettled: number;
  last_error: string | null;
  seconds: number;
}

export class ConsumeTally implements RunCounts {
  claimed = 0;
  done = 0;
  failed = 0;
  gone = 0;
  /** Deliveries being processed. */
  running = 0;
  lastError: string | null = null;

  get unsettled(): number {
    return this.claimed - this.done - this.failed - this.gone;
  }

  summary(elapsedMs: number): ConsumeSummary {
    const { claimed, done, failed, gone, unsettled, lastError } = this;
    const seconds = Number((elapsedMs / 1000).toFixed(3));
    return { claimed, done, failed, gone, unsettled, last_error: lastError, seconds };
  }
}

/** Formats the summary as one line of text. */
export function describeConsumed({ claimed, done, failed, gone, unsettled, seconds }: ConsumeSummary): string {
  const parts = [`${whole(done)} done`];
  if (failed > 0) parts.push(`${whole(failed)} failed`);
  if (gone > 0) parts.push(`${whole(gone)} lost their lease`);
  if (unsettled > 0) parts.push(`${whole(unsettled)} not settled`);
  return `${whole(claimed)} ${claimed === 1 ? 'delivery' : 'deliveries'} in ${seconds} s: ${parts.join(', ')}\n`;
}

/** The status line of a terminal. */
function progressLine({ claimed, running, done, failed, lastError }: ConsumeTally): string {
  const counts = `claimed ${whole(claimed)}, running ${whole(running)}, done ${whole(done)}, failed ${whole(failed)}`;
  return lastError === null ? counts : `${counts}; last error: ${lastError}`;
}

function whole(value: number): string {
  return value.toLocaleString('en-GB');
}

const REDRAWN_EVERY_MS = 200;
const COLUMNS_DEFAULT = 80;
const CLEAR_LINE = '\r\x1b[K';

type Stream = CommandIo['stderr'];

export interface ConsumeProgress {
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
    stderr.write(`${lineOpen ? '\n' : ''}${visibleLine(line)}\n`);
    lineOpen = false;
    if (terminal) draw();
  };
  return {
    report,
    write: (stream, chunk) => {
      if (terminal && stream.isTTY === true) {
        clear();
        lineOpen = chunk.at(-1) !== 0x0a && chunk.at(-1) !== '\n';
      }
      return new Promise((written) => void stream.write(chunk, (error) => written(error ?? null)));
    },
    stop: () => {
      clearInterval(timer);
      clear();
      if (lineOpen) stderr.write('\n');
    },
  };
}
