/** `weir listen`: `weir consume --forward` with a temporary agent, which gets new events only and is removed in the end. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { type ApiClient, openApiClient } from '../../deliver/client/http.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import { CannotSign } from '../../model/signatures/sign.ts';
import { parseAddress, uuids, wholeNumber } from '../command/arguments.ts';
import { ProblemFailure } from '../manage/call.ts';
import { callOver, readToken } from '../manage/remote.ts';
import { type Running, runAgent } from './agent.ts';
import { type ForwardOptions, openForwarding, withForwardOptions } from './forward.ts';
import { type ForwardedWebhook, type ForwardKeys, readForwardKeys, type Signing, signingFor } from './signing.ts';
import { targetName } from './target.ts';

interface ListenOptions extends ForwardOptions {
  token?: string;
  tokenFile?: string;
  webhook: string[];
  filter?: string;
  concurrency: number;
  drainSeconds: number;
  json?: true;
}

/** A person waits for the removal. If it takes longer, the server removes the agent an hour after its last request. */
const REMOVAL_TIMEOUT_MS = 5_000;

/** `weir listen`. Exit code 1 when the token is refused, the API is unusable, or the agent could not be removed. */
export function define(command: Command, io: CommandIo): void {
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
    .option('--concurrency <n>', 'events forwarded at the same time', wholeNumber(100), 8)
    .option('--drain-seconds <n>', 'after Ctrl-C, time for running requests to finish', wholeNumber(3_600, 0), 10)
    .option('--json', 'print a line of JSON for each attempt')
    .action((url: string, options: ListenOptions) => listen(parseAddress(url), options, io));
  withForwardOptions(command);
}

async function listen(url: URL, options: ListenOptions, io: CommandIo): Promise<void> {
  const target = parseAddress(options.forward);
  const problem = options.filter === undefined ? null : filterProblem(options.filter);
  if (problem !== null) throw new CommandError(`--filter: ${problem}`, 2);
  const keys = await readForwardKeys(options, io);
  const client = openApiClient(url);
  const calls = callsOf(client, await readToken(options, io));
  const open = async (running: Running) => {
    const webhooks: ForwardedWebhook[] = [];
    for (const id of new Set(options.webhook)) webhooks.push(await calls.call('showWebhook', { id }));
    const signings = new Map(webhooks.map((webhook) => [webhook.id, signing(webhook, keys)]));
    const { id, credential } = await addAgent(calls, [...signings.keys()], options.filter);
    for (const line of opening(webhooks, signings, target)) running.progress.report(line);
    const signingOf = async (webhookId: string) => signings.get(webhookId) ?? null;
    const names = signings.size > 1;
    const forwarding = openForwarding(target, options, { signingOf, names }, running);
    return {
      agent: { url, credential },
      handler: forwarding.handler,
      options: { concurrency: options.concurrency, drainSeconds: options.drainSeconds },
      reportsFailures: false,
      refused: REMOVED,
      close: async () => {
        forwarding.close();
        await calls.remove(id);
      },
    };
  };
  try {
    await runAgent(io, open, { json: false });
  } finally {
    client.close();
  }
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

function opening(webhooks: readonly ForwardedWebhook[], signings: ReadonlyMap<string, Signing>, target: URL): string[] {
  const lines = webhooks.map(({ id, name, url, signature_scheme: scheme }) => {
    const signed = signings.get(id) == null ? 'not signed; give --secret to sign' : `signed by the scheme ${scheme}`;
    return `Webhook ${name}: requests to ${url} are forwarded to ${targetName(target)}, ${signed}.`;
  });
  return [...lines, 'Only events that arrive from now on are forwarded. Press Ctrl-C to stop.'];
}

const REMOVED =
  'The temporary agent was removed: it was revoked, or had made no request for an hour. Start weir listen again.';

/** Creates the temporary agent. With a filter it is subscribed afterwards, together with the filter, so that no event passes unfiltered. */
async function addAgent(
  { call, remove }: ReturnType<typeof callsOf>,
  webhookIds: readonly string[],
  filter: string | undefined,
) {
  const name = `listen on ${hostname().slice(0, 100)}, ${randomBytes(4).toString('hex')}`;
  const input = { name, webhook_ids: filter === undefined ? webhookIds : [], temporary: true };
  const added = await call('createAgent', { input }).catch((error) => {
    if (!(error instanceof ProblemFailure) || error.document.status !== 403) throw error;
    const advice = 'weir token add --email E --name listen --role operator';
    throw new CommandError(`${error.message} weir listen creates an agent; create a token that may: ${advice}`);
  });
  try {
    if (filter !== undefined)
      for (const innerId of webhookIds) await call('setSubscription', { id: added.id, innerId, input: { filter } });
  } catch (error) {
    await remove(added.id);
    throw error;
  }
  return added;
}

/** The calls of the management API. They reject with CommandError. */
function callsOf(client: ApiClient, token: string) {
  const { call: callSoon } = callOver(client, token, REMOVAL_TIMEOUT_MS);
  const remove = async (id: string) => {
    await callSoon('revokeAgent', { id }).catch((error: Error) => {
      // A person has removed it, or it expired.
      if (error instanceof ProblemFailure && error.document.status === 404) return;
      throw new CommandError(
        `The temporary agent was not removed; Weir removes it an hour after its last request. ${error.message}`,
      );
    });
  };
  return { call: callOver(client, token).call, remove };
}
