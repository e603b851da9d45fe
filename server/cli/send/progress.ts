/** Progress of `weir send` on standard error: a bar on a terminal; in a pipe at most one line. */
import { type CommandIo, printMessage } from '../../base/command/io.ts';
import { openBar } from '../command/progress.ts';
import type { SendWatcher } from './run.ts';

interface SendProgress extends SendWatcher {
  stop: () => void;
}

/** Shorter waits are not reported. */
const WAIT_SHOWN_MS = 1_000;

/** @param count number of requests to send */
export function showSendProgress(count: number, stderr: CommandIo['stderr']): SendProgress {
  return stderr.isTTY === true ? bar(count, stderr) : line(stderr);
}

function bar(count: number, stderr: CommandIo['stderr']): SendProgress {
  const shown = openBar('{bar} {value}/{total}, {duration_formatted}{note}', stderr);
  shown.start(count, 0, { note: '' });
  return {
    progress: (sent) => shown.update(sent, { note: '' }),
    waiting: (cause, afterMs) =>
      shown.update({ note: afterMs >= WAIT_SHOWN_MS ? `, ${cause}: waiting ${seconds(afterMs)} s` : '' }),
    stop: () => shown.stop(),
  };
}

function line(stderr: CommandIo['stderr']): SendProgress {
  let reported = false;
  return {
    progress: () => {},
    waiting: (cause, afterMs) => {
      if (reported || afterMs < WAIT_SHOWN_MS) return;
      reported = true;
      printMessage(
        { stderr },
        `${cause}: waiting ${seconds(afterMs)} s before the retry; --no-wait counts instead of waiting.\n`,
      );
    },
    stop: () => {},
  };
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
