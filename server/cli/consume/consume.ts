/** `weir consume`: an agent over plain HTTP. Claims deliveries, prints them, runs a command for each or forwards them, and settles them. */
import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printMessage } from '../../base/command/io.ts';
import { openCredentialFile } from '../../deliver/client/credential.ts';
import { openApiClient } from '../../deliver/client/http.ts';
import { Agent, type Handler, type RunOptions, WeirError } from '../../deliver/client/index.ts';
import { parseAddress, uuids, wholeNumber } from '../command/arguments.ts';
import { watchEnd } from '../command/end-watch.ts';
import { type ForwardOptions, forwardDeliveries, withForwardOptions } from '../forward/command.ts';
import { hasColour } from '../forward/lines.ts';
import { readForwardKeys, readWebhook, signingReader } from '../forward/signing.ts';
import { targetName } from '../forward/target.ts';
import { executor } from './exec.ts';
import { OutputClosed, printer } from './print.ts';
import {
  type ConsumeProgress,
  type ConsumeSummary,
  ConsumeTally,
  describeConsumed,
  showConsumeProgress,
} from './progress.ts';

interface ConsumeOptions extends Omit<ForwardOptions, 'forward'> {
  forward?: string;
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
 * refused, the API is unusable, or a claimed delivery could not be settled. Failures of the executed commands and of the target belong
 * to the deliveries: exit code 0, so that a supervisor does not take a bad event for a broken agent.
 */
export function defineConsume(command: Command, io: CommandIo): void {
  command
    .argument('<url>', 'base URL of the API, e.g. http://127.0.0.1:8080')
    .requiredOption('--credential-file <file>', 'file with the credential that `weir agent add` printed')
    .option(
      '--exec <command>',
      'run by sh -c for each delivery: body on standard input, metadata in WEIR_* variables; exit 0 acknowledges',
    )
    .option('--forward <url>', 'send each delivery to this URL with its headers and exact body; 2xx acknowledges')
    .option(
      '--max <n>',
      'exit after this many deliveries are settled: acknowledged or failed',
      wholeNumber('--max', DELIVERIES_MAX),
    )
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
    .option(
      '--json',
      'with --exec: print the summary as one JSON document; output of commands goes to standard error. With --forward: a line of JSON for each attempt',
    )
    .action((url: string, options: ConsumeOptions) => consume(url, options, io));
  withForwardOptions(command);
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
  if (options.exec !== undefined && options.forward !== undefined)
    throw new CommandError('--exec and --forward were both given; give one of them.', 2);
  const target = options.forward === undefined ? null : parseAddress(options.forward);
  const keys = await readForwardKeys(options, io);
  const { read, changes, advice } = await openCredentialFile(options.credentialFile, io.directory);

  const stop = new AbortController();
  const stopNow = new AbortController();
  const tally = new ConsumeTally();
  const progress = showConsumeProgress(tally, io.stderr);
  if (advice !== null) progress.report(advice);
  const once = options.once === true;
  const client = openApiClient(url);
  const agent = new Agent({
    url,
    credential: changes ? read : await read(),
    attemptsMax: once ? ONCE_ATTEMPTS_MAX : Number.POSITIVE_INFINITY,
    notify: (notice) => {
      if (notice.kind === 'retrying') tally.lastError = notice.cause;
      if (notice.kind === 'failed') tally.lastError = notice.reason;
      // With --forward, each attempt prints its own line.
      if (target === null || notice.kind !== 'failed') progress.report(notice.message);
    },
  });
  let broken: CommandError | null = null;
  const counted =
    (work: Handler): Handler =>
    async (delivery, context) => {
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
      stopNow.abort();
      agent.close();
    },
  );
  const startMs = performance.now();
  try {
    const runOptions = {
      concurrency: options.concurrency,
      leaseSeconds: options.leaseSeconds,
      waitSeconds: options.waitSeconds,
      drainSeconds: options.drainSeconds,
      once,
      ...(options.max !== undefined && { max: options.max }),
      ...(options.webhook !== undefined && { webhookIds: options.webhook }),
    };
    if (target === null) {
      const work = counted(handler(options, io, progress, stopNow.signal));
      await agent.run(work, { ...runOptions, signal: stop.signal, counts: tally });
    } else {
      progress.report(`Forwarding deliveries to ${targetName(target)}.`);
      const parts = {
        agent: { run: (work: Handler, more: RunOptions) => agent.run(counted(work), more), me: agent.me.bind(agent) },
        signingOf: signingReader(keys, async (id) => readWebhook(client, await read(), id, stopNow.signal)),
        print: (line: string) => void progress.write(io.stdout, line),
        lines: { json: options.json === true, colour: hasColour(io), names: true },
      };
      const { report } = progress;
      const { timeoutSeconds } = options;
      await forwardDeliveries(
        { ...parts, url: target, timeoutSeconds, report, stop: stop.signal, counts: tally },
        runOptions,
      );
    }
  } finally {
    ending.stop();
    agent.close();
    client.close();
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
  stopNow: AbortSignal,
): Handler {
  if (exec === undefined) return printer((line) => progress.write(io.stdout, line));
  return executor({
    command: exec,
    directory: io.directory,
    environment: io.environment,
    output: (chunk) => progress.write(json === true ? io.stderr : io.stdout, chunk),
    complaint: (chunk) => progress.write(io.stderr, chunk),
    stopNow,
  });
}

/** Prints the summary. Standard output is reserved for delivery lines or command output; only the `--json` document may be added. */
function report(summary: ConsumeSummary, { exec, json }: ConsumeOptions, io: CommandIo): void {
  if (json === true && exec !== undefined) printJson(io, summary);
  else printMessage(io, describeConsumed(summary));
}
