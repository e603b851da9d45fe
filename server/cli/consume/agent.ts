/** Runs an agent in a command, until a signal or a limit ends it, and shows its progress. */
import { CommandError, type CommandIo, onSignals, printJson, printMessage, wholeText } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import {
  Agent,
  type AgentOptions,
  type Handler,
  type RunCounts,
  type RunOptions,
  WeirError,
} from '../../deliver/client/index.ts';

/** The run of a command, as its handler sees it. */
export interface Running {
  io: CommandIo;
  progress: Pick<ReturnType<typeof showConsumeProgress>, 'report' | 'write'>;
  /** The first signal: nothing new is begun. */
  stop: AbortSignal;
  /** The second signal: everything ends at once. */
  stopNow: AbortSignal;
  /** Ends the command with this error after a drain. */
  breakOff: (error: CommandError) => void;
}

interface AgentParts {
  agent: AgentOptions;
  handler: Handler;
  options: Omit<RunOptions, 'signal' | 'counts'>;
  /** Called before the first claim. */
  look?: (agent: Agent) => Promise<void>;
  /** False: the handler prints its own line for a failed delivery. */
  reportsFailures: boolean;
  /** Message for a refused credential; default: that of the agent's error. */
  refused?: string;
  /** Called at the end of every run, also a failed one. */
  close: () => Promise<void> | void;
}

/**
 * Runs the agent, shows its progress, and prints a summary. Throws CommandError when the run fails, or a claimed delivery was not settled.
 * @param open prepares the run; nothing is claimed before it has resolved
 * @param json prints the summary as a document on standard output
 */
export async function runAgent(
  io: CommandIo,
  open: (running: Running) => Promise<AgentParts>,
  { json }: { json: boolean },
): Promise<void> {
  const stop = new AbortController();
  const stopNow = new AbortController();
  const ignoreSignals = watchEnd(
    (signal) => {
      stop.abort();
      if (signal === 'SIGINT' && tally.running > 0)
        progress.report(`Waiting for ${wholeText(tally.running)} running; press Ctrl-C again to stop at once.`);
    },
    () => stopNow.abort(),
  );
  const tally: ConsumeTally = { claimed: 0, done: 0, failed: 0, gone: 0, running: 0, lastError: null };
  let summary: ConsumeSummary | null = null;
  const progress = showConsumeProgress(tally, io.stderr);
  let broken: CommandError | null = null;
  let refused: string | undefined;
  const breakOff = (error: CommandError) => {
    broken = error;
    stop.abort();
  };
  // The reader may close the pipe at any time; the failing write reports it.
  const onOutputError = () => {};
  io.stdout.on('error', onOutputError);
  try {
    const parts = await open({ io, progress, stop: stop.signal, stopNow: stopNow.signal, breakOff });
    refused = parts.refused;
    const agent = new Agent({
      ...parts.agent,
      notify: (notice) => {
        if (notice.kind === 'retrying') tally.lastError = notice.cause;
        if (notice.kind === 'failed') tally.lastError = notice.reason;
        if (parts.reportsFailures || notice.kind !== 'failed') progress.report(notice.message);
      },
    });
    stopNow.signal.addEventListener('abort', () => agent.close());
    const handler: Handler = async (delivery, context) => {
      tally.running += 1;
      try {
        await parts.handler(delivery, context);
      } finally {
        tally.running -= 1;
      }
    };
    const startMs = performance.now();
    try {
      await parts.look?.(agent);
      await agent.run(handler, { ...parts.options, signal: stop.signal, counts: tally });
    } finally {
      agent.close();
      progress.stop();
      summary = summaryOf(tally, performance.now() - startMs);
      if (json) printJson(io, summary);
      else printMessage(io, describeConsumed(summary));
      await parts.close();
    }
  } catch (error) {
    if (!(error instanceof WeirError)) throw error;
    throw new CommandError(error.code === 'credential_refused' && refused !== undefined ? refused : error.message);
  } finally {
    ignoreSignals();
    progress.stop();
    io.stdout.removeListener('error', onOutputError);
  }
  if (broken !== null) throw broken;
  const { unsettled } = summary!;
  if (unsettled > 0)
    throw new CommandError(
      unsettled === 1
        ? '1 claimed delivery was not settled; it is delivered again when its lease expires.'
        : `${unsettled} claimed deliveries were not settled; they are delivered again when their leases expire.`,
    );
}

interface ConsumeSummary {
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

interface ConsumeTally extends RunCounts {
  running: number;
  lastError: string | null;
}

function summaryOf({ claimed, done, failed, gone, lastError }: ConsumeTally, elapsedMs: number): ConsumeSummary {
  const seconds = Number((elapsedMs / 1000).toFixed(3));
  const unsettled = claimed - done - failed - gone;
  return { claimed, done, failed, gone, unsettled, last_error: lastError, seconds };
}

function describeConsumed({ claimed, done, failed, gone, unsettled, seconds }: ConsumeSummary): string {
  const parts = [`${wholeText(done)} done`];
  if (failed > 0) parts.push(`${wholeText(failed)} failed`);
  if (gone > 0) parts.push(`${wholeText(gone)} lost their lease`);
  if (unsettled > 0) parts.push(`${wholeText(unsettled)} not settled`);
  return `${wholeText(claimed)} ${claimed === 1 ? 'delivery' : 'deliveries'} in ${seconds} s: ${parts.join(', ')}\n`;
}

function progressLine({ claimed, running, done, failed, lastError }: ConsumeTally): string {
  const counts = `claimed ${wholeText(claimed)}, running ${wholeText(running)}, done ${wholeText(done)}, failed ${wholeText(failed)}`;
  return lastError === null ? counts : `${counts}; last error: ${lastError}`;
}

const REDRAWN_EVERY_MS = 200;
const COLUMNS_DEFAULT = 80;
const CLEAR_LINE = '\r\x1b[K';

type Stream = CommandIo['stderr'];

function showConsumeProgress(tally: ConsumeTally, stderr: Stream & { columns?: number }) {
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
    /** Writes to a stream that may be the same terminal. Resolves after the write, with the error if it failed. */
    write: (stream: Stream, chunk: Buffer | string): Promise<Error | null> => {
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

/** A second SIGINT within this time belongs to the same key press: the terminal signals the whole group, and npm forwards it. */
const SAME_INTERRUPT_MS = 500;

/** TERM, INT and HUP start a drain; another INT ends everything at once. Returns what removes the signal handlers. */
function watchEnd(drain: (signal: NodeJS.Signals) => void, stopNow: () => void): () => void {
  let drainedAtMs: number | null = null;
  return onSignals((signal) => {
    const nowMs = performance.now();
    if (drainedAtMs === null) {
      drainedAtMs = nowMs;
      drain(signal);
    } else if (signal === 'SIGINT' && nowMs - drainedAtMs >= SAME_INTERRUPT_MS) stopNow();
  });
}
