/** `weir consume`: an agent over plain HTTP. Claims deliveries, prints them, runs a command for each or forwards them, and settles them. */
import { setImmediate as turn } from 'node:timers/promises';
import type { Command } from 'commander';
import { CommandError, type CommandIo, jsonLine } from '../../base/command/io.ts';
import { openCredentialFile } from '../../deliver/client/credential.ts';
import { NotBegun } from '../../deliver/client/delivery.ts';
import { openApiClient } from '../../deliver/client/http.ts';
import { type Agent, type Delivery, type Handler, WeirError } from '../../deliver/client/index.ts';
import { parseAddress, uuids, wholeNumber } from '../command/arguments.ts';
import { type Running, runAgent } from './agent.ts';
import { executor } from './exec.ts';
import { type ForwardOptions, openForwarding, withForwardOptions } from './forward.ts';
import { readForwardKeys, readWebhook, signingReader } from './signing.ts';
import { targetName } from './target.ts';

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

/** Weir lists at most this number of an agent's webhooks. */
const WEBHOOKS_LISTED_MAX = 1_000;

/** With `--once`, for example in a timer's job, the command gives up on an unreachable server after about twenty seconds. */
const ONCE_ATTEMPTS_MAX = 10;

/**
 * Exit code 1 when the credential is refused, the API is unusable, or a claimed delivery could not be settled. Failures of the executed
 * commands and of the target belong to the deliveries: exit code 0, so that a supervisor does not take a bad event for a broken agent.
 */
export function define(command: Command, io: CommandIo): void {
  command
    .argument('<url>', 'base URL of the API, e.g. http://127.0.0.1:8080')
    .requiredOption('--credential-file <file>', 'file with the credential that `weir agent add` printed')
    .option(
      '--exec <command>',
      'run by sh -c for each delivery: body on standard input, metadata in WEIR_* variables; exit 0 acknowledges',
    )
    .option('--forward <url>', 'send each delivery to this URL with its headers and exact body; 2xx acknowledges')
    .option('--max <n>', 'exit after this many deliveries are settled', wholeNumber(1_000_000_000))
    .option('--once', 'claim once, process those deliveries, exit')
    .option(
      '--lease-seconds <n>',
      'length of a lease; it is extended while the work continues',
      wholeNumber(3_600, 5),
      60,
    )
    .option('--wait-seconds <n>', 'how long a claim waits for a delivery', wholeNumber(30, 0), 20)
    .option('--concurrency <n>', 'deliveries processed at the same time', wholeNumber(1_000), 8)
    .option('--webhook <id>', 'only deliveries of this webhook; may be repeated', uuids)
    .option('--drain-seconds <n>', 'after TERM or Ctrl-C, time for running work to finish', wholeNumber(86_400, 0), 30)
    .option(
      '--json',
      'with --exec: print the summary as one JSON document; output of commands goes to standard error. With --forward: a line of JSON for each attempt',
    )
    .action((url: string, options: ConsumeOptions) => consume(url, options, io));
  withForwardOptions(command);
}

async function consume(address: string, options: ConsumeOptions, io: CommandIo): Promise<void> {
  const url = parseAddress(address);
  if (options.exec?.trim() === '') throw new CommandError('--exec is empty; give a command, or omit it.', 2);
  if (options.exec !== undefined && options.forward !== undefined)
    throw new CommandError('--exec and --forward were both given; give one of them.', 2);
  const once = options.once === true;
  const open = async (running: Running) => {
    const { read, changes, advice } = await openCredentialFile(options.credentialFile, io.directory);
    if (advice !== null) running.progress.report(advice);
    const { handler, close } = await openHandler(url, options, read, running);
    return {
      agent: {
        url,
        credential: changes ? read : await read(),
        attemptsMax: once ? ONCE_ATTEMPTS_MAX : Number.POSITIVE_INFINITY,
      },
      handler,
      options: { ...options, once, webhookIds: options.webhook },
      look: (agent: Agent) => reportUnsubscribed(agent, options.webhook ?? [], running),
      reportsFailures: options.forward === undefined,
      close,
    };
  };
  await runAgent(io, open, { json: options.json === true && options.exec !== undefined });
}

/** Reports each webhook of --webhook without a subscription, of which no delivery will come. Other failures are left to the claims. */
async function reportUnsubscribed(
  agent: Agent,
  webhookIds: readonly string[],
  { progress, stop }: Running,
): Promise<void> {
  if (webhookIds.length === 0) return;
  const status = await agent.me({ signal: stop }).catch((error: Error) => {
    // The claims would repeat all attempts, which take their time.
    if (error instanceof WeirError && error.code === 'unreachable') throw error;
    return null;
  });
  // A full list may lack a webhook.
  if (status === null || status.webhooks.length >= WEBHOOKS_LISTED_MAX) return;
  for (const webhookId of webhookIds)
    if (!status.webhooks.some(({ id }) => id === webhookId))
      progress.report(
        `The agent ${status.name} is not subscribed to the webhook ${webhookId}, and gets none of its events. To subscribe it: weir agent subscribe ${status.id} --webhook ${webhookId}`,
      );
}

async function openHandler(
  url: URL,
  options: ConsumeOptions,
  readCredential: () => Promise<string>,
  running: Running,
): Promise<{ handler: Handler; close: () => void }> {
  const { io, progress, stopNow } = running;
  const { exec, forward, json } = options;
  if (forward !== undefined) {
    const keys = await readForwardKeys(options, io);
    const target = parseAddress(forward);
    const client = openApiClient(url);
    const signingOf = signingReader(keys, async (id) => readWebhook(client, await readCredential(), id, stopNow));
    const forwarding = openForwarding(target, options, { signingOf, names: true }, running);
    progress.report(`Forwarding deliveries to ${targetName(target)}.`);
    const close = () => {
      forwarding.close();
      client.close();
    };
    return { handler: forwarding.handler, close };
  }
  const close = () => {};
  if (exec === undefined)
    return { handler: printer((line) => progress.write(io.stdout, line), running.breakOff), close };
  const output = (chunk: Buffer) => progress.write(json ? io.stderr : io.stdout, chunk);
  const complaint = (chunk: Buffer) => progress.write(io.stderr, chunk);
  return { handler: executor({ command: exec, io, output, complaint, stopNow }), close };
}

/** Resolves with the error; null: the whole text was passed to the system. */
type Write = (text: string) => Promise<Error | null>;

/** Maximum time of consecutive writes before the event loop runs other work. */
const TURN_MS = 5;

/**
 * Prints deliveries one after the other. A delivery is done when its whole line was passed to the system. The handler throws NotBegun for a
 * delivery whose turn comes after its signal has aborted, or after the output has closed.
 * @param breakOff called when standard output takes no more lines, so that every later delivery would fail in the same way
 */
function printer(write: Write, breakOff: (error: CommandError) => void): Handler {
  let before: Promise<unknown> = Promise.resolve();
  let turnEndMs = 0;
  let isClosed = false;
  const print = async (delivery: Delivery, signal: AbortSignal) => {
    // Node writes to pipes synchronously: with a slow reader, signals and lease extensions wait for one line at most.
    if (performance.now() >= turnEndMs) {
      await turn();
      turnEndMs = performance.now() + TURN_MS;
    }
    if (isClosed || signal.aborted) throw new NotBegun();
    const error: NodeJS.ErrnoException | null = await write(jsonLine(delivery));
    if (error === null) return;
    isClosed = true;
    const reason = `standard output is not writable: ${error.code ?? error.message}`;
    breakOff(new CommandError(`${reason}.`));
    throw new Error(reason);
  };
  return (delivery, { signal }) => {
    const printed = before.then(() => print(delivery, signal));
    before = printed.catch(() => {});
    return printed;
  };
}
