/** `weir listen`: forwards new events to a program under development, with a temporary agent that is removed in the end. */
import type { Command } from 'commander';
import { CommandError, type CommandIo, printLine, printMessage, printText } from '../../base/command/io.ts';
import { openApiClient } from '../../deliver/client/http.ts';
import { Agent, WeirError } from '../../deliver/client/index.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import { CannotSign } from '../../model/signatures/sign.ts';
import { parseAddress, uuids, wholeNumber } from '../command/arguments.ts';
import { watchEnd } from '../command/end-watch.ts';
import { readToken } from '../command/token.ts';
import { ConsumeTally, describeConsumed } from '../consume/progress.ts';
import { type ForwardOptions, forwardDeliveries, withForwardOptions } from '../forward/command.ts';
import { hasColour } from '../forward/lines.ts';
import type { Signing } from '../forward/request.ts';
import { type ForwardedWebhook, type ForwardKeys, readForwardKeys, signingFor } from '../forward/signing.ts';
import { targetName } from '../forward/target.ts';
import { ListenApi } from './api.ts';

interface ListenOptions extends ForwardOptions {
  token?: string;
  tokenFile?: string;
  webhook: string[];
  filter?: string;
  concurrency: number;
  drainSeconds: number;
  json?: true;
}

const CONCURRENCY_MAX = 100;
const DRAIN_SECONDS_MAX = 3_600;
/** A developer who restarts the target waits at most this long for the deliveries of a killed `weir listen`. */
const LEASE_SECONDS = 60;
const WAIT_SECONDS = 20;

/**
 * Builds the command. Fails with CommandError: exit code 2 for invalid arguments; exit code 1 when the token is refused, the API is unusable,
 * or the agent could not be removed.
 */
export function defineListen(command: Command, io: CommandIo): void {
  command
    .argument('<url>', 'base URL of the API, e.g. https://weir.example.org')
    .requiredOption('--webhook <id>', 'forward events of this webhook; may be repeated', uuids)
    .requiredOption('--forward <url>', 'where the events are sent, e.g. http://127.0.0.1:3000/hook; 2xx acknowledges')
    .option('--filter <expression>', 'forward only events for which this CEL expression is true')
    .option(
      '--token <token>',
      'API token of a user, role operator; the environment variable WEIR_TOKEN keeps it out of the process list',
    )
    .option('--token-file <file>', 'file with the API token')
    .option('--concurrency <n>', 'events forwarded at the same time', wholeNumber('--concurrency', CONCURRENCY_MAX), 8)
    .option(
      '--drain-seconds <n>',
      'after Ctrl-C, time for running requests to finish',
      wholeNumber('--drain-seconds', DRAIN_SECONDS_MAX, 0),
      10,
    )
    .option('--json', 'print a line of JSON for each attempt')
    .action((url: string, options: ListenOptions) => listen(parseAddress(url), options, io));
  withForwardOptions(command);
}

async function listen(url: URL, options: ListenOptions, io: CommandIo): Promise<void> {
  const target = parseAddress(options.forward);
  const problem = options.filter === undefined ? null : filterProblem(options.filter);
  if (problem !== null) throw new CommandError(`--filter: ${problem}`, 2);
  const keys = await readForwardKeys(options, io);
  const token = await readToken(options, io);
  const stop = new AbortController();
  const ending = watchEnd(
    () => stop.abort(),
    () => agent?.close(),
  );
  const client = openApiClient(url);
  const api = new ListenApi(client, token);
  let agent: Agent | null = null;
  try {
    const webhooks = await api.webhooks(options.webhook);
    const signings = new Map(webhooks.map((webhook) => [webhook.id, signing(webhook, keys)]));
    const { filter } = options;
    const ids = webhooks.map(({ id }) => id);
    // With a filter it is subscribed afterwards, so that no event is delivered without it.
    const made = await api.addAgent(filter === undefined ? ids : []);
    try {
      if (filter !== undefined) for (const id of ids) await api.subscribe(made.id, id, filter);
      printMessage(io, opening(webhooks, signings, target));
      agent = new Agent({
        url,
        credential: made.credential,
        // Each attempt prints its own line.
        notify: (notice) => notice.kind === 'failed' || printLine(io, notice.message),
      });
      await forward({ agent, target, signings, stop: stop.signal, options, io });
    } finally {
      agent?.close();
      await api.removeAgent(made.id);
    }
  } catch (error) {
    throw error instanceof WeirError ? new CommandError(described(error)) : error;
  } finally {
    ending.stop();
    client.close();
  }
}

interface Forwarding {
  agent: Agent;
  target: URL;
  signings: ReadonlyMap<string, Signing>;
  stop: AbortSignal;
  options: ListenOptions;
  io: CommandIo;
}

async function forward({ agent, target, signings, stop, options, io }: Forwarding): Promise<void> {
  const { timeoutSeconds, concurrency, drainSeconds } = options;
  const tally = new ConsumeTally();
  const startMs = performance.now();
  const parts = {
    agent,
    url: target,
    timeoutSeconds,
    signingOf: async (webhookId: string) => signings.get(webhookId) ?? null,
    print: (line: string) => printText(io, line),
    lines: { json: options.json === true, colour: hasColour(io), names: signings.size > 1 },
    report: (line: string) => printLine(io, line),
    stop,
    counts: tally,
  };
  await forwardDeliveries(parts, {
    concurrency,
    drainSeconds,
    leaseSeconds: LEASE_SECONDS,
    waitSeconds: WAIT_SECONDS,
  });
  printMessage(io, describeConsumed(tally.summary(performance.now() - startMs)));
}

/** Throws CommandError (usage) when the key is missing or of the wrong kind. */
function signing(webhook: ForwardedWebhook, keys: ForwardKeys): Signing {
  try {
    return signingFor(webhook, keys);
  } catch (error) {
    if (error instanceof CannotSign) throw new CommandError(`The requests cannot be signed: ${error.message}`, 2);
    throw error;
  }
}

function opening(webhooks: readonly ForwardedWebhook[], signings: ReadonlyMap<string, Signing>, target: URL): string {
  const lines = webhooks.map(({ id, name, url, signature_scheme: scheme }) => {
    const signed = signings.get(id) == null ? 'not signed; give --secret to sign' : `signed by the scheme ${scheme}`;
    return `Webhook ${name}: requests to ${url} are forwarded to ${targetName(target)}, ${signed}.\n`;
  });
  return `${lines.join('')}Only events that arrive from now on are forwarded. Press Ctrl-C to stop.\n`;
}

function described({ code, message }: WeirError): string {
  if (code !== 'credential_refused') return message;
  return 'The temporary agent was removed: it was revoked, or had made no request for an hour. Start weir listen again.';
}
