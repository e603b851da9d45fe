/** `weir consume`: an agent over plain HTTP. Claims deliveries, prints them or runs a command for each, and settles them. */
import { Command } from 'commander';
import { openCredentialFile } from '../client/credential.ts';
import { Agent, type Handler, WeirError } from '../client/index.ts';
import { parseAddress, uuids, wholeNumber } from './arguments.ts';
import { executor } from './consume/exec.ts';
import { OutputClosed, printer } from './consume/print.ts';
import {
  type ConsumeProgress,
  type ConsumeSummary,
  ConsumeTally,
  describeConsumed,
  showConsumeProgress,
} from './consume/progress.ts';
import { CommandError, type CommandIo, printJson, printMessage } from './io.ts';

interface ConsumeOptions {
  credentialFile: string;
  exec?: string;
  max?: number;
  once?: true;
  leaseSeconds: number;
  waitSeconds: number;
  concurrency: number;
  webhook?: string[];
  drainSeconds: number;
  json?: true;
}

const DELIVERIES_MAX = 1_000_000_000;
/** Maximum number of deliveries in one claim. */
const CONCURRENCY_MAX = 1_000;
const LEASE_SECONDS_MAX = 3_600;
const WAIT_SECONDS_MAX = 30;
const DRAIN_SECONDS_MAX = 86_400;

/** With `--once`, for example in a timer's job, the command gives up on an unreachable server after about twenty seconds. */
const ONCE_ATTEMPTS_MAX = 10;

/**
 * Builds the command. Fails with CommandError: exit code 2 for invalid arguments; exit code 1 when the credential is
 * refused, the API is unusable, or a claimed delivery could not be settled. Failures of the executed commands belong to the
 * deliveries: exit code 0.
 */
export function consumeCommand(io: CommandIo): Command {
  return new Command('consume')
    .description(
      'Run as an agent: claim deliveries, print each as a line of JSON or run a command for it, and acknowledge it.',
    )
    .argument('<url>', 'base URL of the API, e.g. http://127.0.0.1:8080')
    .requiredOption('--credential-file <file>', 'file with the credential that `weir agent add` printed')
    .option(
      '--exec <command>',
      'run by sh -c for each delivery: body on standard input, metadata in WEIR_* variables; exit 0 acknowledges',
    )
    .option('--max <n>', 'exit after this many deliveries are settled', wholeNumber('--max', DELIVERIES_MAX))
    .option('--once', 'claim once, process those deliveries, exit')
    .option(
      '--lease-seconds <n>',
      'length of a lease; it is extended while the work continues',
      wholeNumber('--lease-seconds', LEASE_SECONDS_MAX, 5),
      60,
    )
    .option(
      '--wait-seconds <n>',
      'maximum time a claim waits for a delivery',
      wholeNumber('--wait-seconds', WAIT_SECONDS_MAX, 0),
      20,
    )
    .option(
      '--concurrency <n>',
      'deliveries processed at the same time',
      wholeNumber('--concurrency', CONCURRENCY_MAX),
      8,
    )
    .option('--webhook <id>', 'only deliveries of this webhook; may be repeated', uuids)
    .option(
      '--drain-seconds <n>',
      'after TERM or Ctrl-C, time for running work to finish',
      wholeNumber('--drain-seconds', DRAIN_SECONDS_MAX, 0),
      30,
    )
    .option('--json', 'with --exec: print the summary as one JSON document; output of commands goes to standard error')
    .action((url: string, options: ConsumeOptions) => consume(url, options, io));
}

async function consume(address: string, options: ConsumeOptions, io: CommandIo): Promise<void> {
  try {
    await runAgent(parseAddress(address), options, io);
  } catch (error) {
    throw error instanceof WeirError ? new CommandError(error.message) : error;
  }
}

async function runAgent(url: URL, options: ConsumeOptions, io: CommandIo): Promise<void> {
  if (options.exec?.trim() === '') throw new CommandError('--exec is empty; give a command, or omit it.', 2);
  const { read: credential, advice } = await openCredentialFile(options.credentialFile, io.directory);

  const stop = new AbortController();
  const hurry = new AbortController();
  const tally = new ConsumeTally();
  const progress = showConsumeProgress(tally, io.stderr);
  if (advice !== null) progress.report(advice);
  const once = options.once === true;
  const agent = new Agent({
    url,
    credential,
    attemptsMax: once ? ONCE_ATTEMPTS_MAX : Number.POSITIVE_INFINITY,
    notify: (notice) => {
      if (notice.kind === 'retrying') tally.lastError = notice.cause;
      if (notice.kind === 'failed') tally.lastError = notice.reason;
      progress.report(notice.message);
    },
  });
  const work = handler(options, io, progress, hurry.signal);
  let broken: CommandError | null = null;
  const handle: Handler = async (delivery, context) => {
    tally.running += 1;
    try {
      await work(delivery, context);
    } catch (error) {
      if (error instanceof OutputClosed) {
        broken = new CommandError(`${error.message}.`);
        stop.abort();
      }
      throw error;
    } finally {
      tally.running -= 1;
    }
  };

  // The reader may close the pipe at any time; the failing write reports it.
  const onOutputError = () => {};
  io.stdout.on('error', onOutputError);
  const ending = watchEnd(
    () => stop.abort(),
    () => {
      hurry.abort();
      agent.close();
    },
  );
  const startMs = performance.now();
  try {
    await agent.run(handle, {
      signal: stop.signal,
      concurrency: options.concurrency,
      leaseSeconds: options.leaseSeconds,
      waitSeconds: options.waitSeconds,
      drainSeconds: options.drainSeconds,
      once,
      counts: tally,
      ...(options.max !== undefined && { max: options.max }),
      ...(options.webhook !== undefined && { webhookIds: options.webhook }),
    });
  } finally {
    ending.stop();
    agent.close();
    progress.stop();
    report(tally.summary(performance.now() - startMs), options, io);
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

function handler(
  { exec, json }: ConsumeOptions,
  io: CommandIo,
  progress: ConsumeProgress,
  hurry: AbortSignal,
): Handler {
  if (exec === undefined) return printer((line) => progress.write(io.stdout, line));
  return executor({
    command: exec,
    directory: io.directory,
    environment: io.environment,
    output: (chunk) => progress.write(json === true ? io.stderr : io.stdout, chunk),
    complaint: (chunk) => progress.write(io.stderr, chunk),
    hurry,
  });
}

/** Prints the summary. Standard output is reserved for delivery lines or command output; only the `--json` document may be added. */
function report(summary: ConsumeSummary, { exec, json }: ConsumeOptions, io: CommandIo): void {
  if (json === true && exec !== undefined) printJson(io, summary);
  else printMessage(io, describeConsumed(summary));
}

/** A second SIGINT within this time belongs to the same key press: the terminal signals the whole group, and npm forwards it. */
const SAME_INTERRUPT_MS = 500;

interface EndWatch {
  /** Removes the signal handlers. */
  stop: () => void;
}

/** TERM, INT and HUP start a drain; another INT ends everything at once. */
function watchEnd(drain: () => void, hurry: () => void): EndWatch {
  let drainedAtMs: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    const nowMs = performance.now();
    if (drainedAtMs === null) {
      drainedAtMs = nowMs;
      drain();
    } else if (signal === 'SIGINT' && nowMs - drainedAtMs >= SAME_INTERRUPT_MS) hurry();
  };
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return {
    stop: () => {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
