/** Runs an agent in a command, until a signal or a limit ends it, and shows its progress. */
import { CommandError, type CommandIo, printJson, printMessage } from '../../base/command/io.ts';
import { Agent, type AgentOptions, type Handler, type RunOptions, WeirError } from '../../deliver/client/index.ts';
import { watchEnd } from '../command/end-watch.ts';
import { type ConsumeProgress, ConsumeTally, describeConsumed, showConsumeProgress } from './progress.ts';

/** The command, as the parts of an agent see it. */
export interface Running {
  io: CommandIo;
  progress: Pick<ConsumeProgress, 'report' | 'write'>;
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
  /** False: the handler prints its own line for a failed delivery. */
  reportsFailures: boolean;
  /** What a refused credential means; without it the error of the agent says it. */
  refused?: string;
  /** Called in the end, whatever it was. */
  close: () => Promise<void> | void;
}

/**
 * Throws CommandError when the run fails, or a claimed delivery could not be settled.
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
  const ending = watchEnd(
    () => stop.abort(),
    () => stopNow.abort(),
  );
  const tally = new ConsumeTally();
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
      await agent.run(handler, { ...parts.options, signal: stop.signal, counts: tally });
    } finally {
      agent.close();
      progress.stop();
      const summary = tally.summary(performance.now() - startMs);
      if (json) printJson(io, summary);
      else printMessage(io, describeConsumed(summary));
      await parts.close();
    }
  } catch (error) {
    if (!(error instanceof WeirError)) throw error;
    throw new CommandError(error.code === 'credential_refused' && refused !== undefined ? refused : error.message);
  } finally {
    ending.stop();
    progress.stop();
    io.stdout.removeListener('error', onOutputError);
  }
  if (broken !== null) throw broken;
  if (tally.unsettled > 0) throw new CommandError(notSettled(tally.unsettled));
}

function notSettled(count: number): string {
  return count === 1
    ? '1 claimed delivery was not settled; it is delivered again when its lease expires.'
    : `${count} claimed deliveries were not settled; they are delivered again when their leases expire.`;
}
