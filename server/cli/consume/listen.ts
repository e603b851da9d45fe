/** `weir listen`: `weir consume --forward` with a temporary agent, which gets new events only and is removed in the end. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import { type ApiClient, openApiClient } from '../../deliver/client/http.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import { CannotSign } from '../../model/signatures/sign.ts';
import { parseAddress, uuids, wholeNumber } from '../command/arguments.ts';
import { readToken } from '../command/token.ts';
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

const CONCURRENCY_MAX = 100;
const DRAIN_SECONDS_MAX = 3_600;
const ANSWER_TIMEOUT_MS = 30_000;
/** The removal happens while a person waits for the command to end; the server removes the agent otherwise. */
const REMOVAL_TIMEOUT_MS = 5_000;

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
  const client = openApiClient(url);
  const call = apiCaller(client, await readToken(options, io));
  const open = async (running: Running) => {
    const webhooks: ForwardedWebhook[] = [];
    for (const id of new Set(options.webhook)) webhooks.push(await call('GET', `webhooks/${id}`, [200]));
    const signings = new Map(webhooks.map((webhook) => [webhook.id, signing(webhook, keys)]));
    const { id, credential } = await addAgent(call, [...signings.keys()], options.filter);
    for (const line of opening(webhooks, signings, target)) running.progress.report(line);
    const signingOf = async (webhookId: string) => signings.get(webhookId) ?? null;
    const names = signings.size > 1;
    const forwarding = openForwarding({ ...options, forward: target }, { signingOf, names }, running);
    return {
      agent: { url, credential },
      handler: forwarding.handler,
      options: { concurrency: options.concurrency, drainSeconds: options.drainSeconds },
      reportsFailures: false,
      refused: REMOVED,
      close: async () => {
        forwarding.close();
        await removeAgent(call, id);
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

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
/** @param expected statuses of success */
type CallApi = <T>(method: Method, path: string, expected: readonly number[], body?: object) => Promise<T>;

/** Calls of the management API: resolve with the document, reject with CommandError. Messages never include any part of the token. */
function apiCaller(client: ApiClient, token: string): CallApi {
  const { base, update } = client;
  const { signal } = new AbortController();
  return async <T>(method: Method, path: string, expected: readonly number[], body?: object) => {
    const timeoutMs = method === 'DELETE' ? REMOVAL_TIMEOUT_MS : ANSWER_TIMEOUT_MS;
    const order = { method, path: `api/v1/${path}`, token, timeoutMs, signal };
    const answer = await client.send(body === undefined ? order : { ...order, body });
    if (answer.kind === 'failed') throw new CommandError(`${base} did not answer: ${answer.name}.`);
    const { status, document } = answer;
    if (expected.includes(status) && (method === 'DELETE' || Object(document) === document)) return document as T;
    const change = update(status);
    throw new CommandError(`${refusal(base, path, status, document)}${change === null ? '' : ` ${change}`}`);
  };
}

/** With a filter the agent is subscribed afterwards, so that no event is delivered without it. */
async function addAgent(call: CallApi, webhookIds: readonly string[], filter: string | undefined) {
  const name = `listen on ${hostname().slice(0, 100)}, ${randomBytes(4).toString('hex')}`;
  const body = { name, webhook_ids: filter === undefined ? webhookIds : [], temporary: true };
  const added = await call<{ id: string; credential: string }>('POST', 'agents', [201], body);
  try {
    if (filter !== undefined)
      for (const id of webhookIds) await call('PUT', `agents/${added.id}/subscriptions/${id}`, [200], { filter });
  } catch (error) {
    await removeAgent(call, added.id);
    throw error;
  }
  return added;
}

async function removeAgent(call: CallApi, id: string): Promise<void> {
  // 404: a person has removed it, or it expired.
  await call('DELETE', `agents/${id}`, [204, 404]).catch((error: Error) => {
    throw new CommandError(
      `The temporary agent was not removed; Weir removes it an hour after its last request. ${error.message}`,
    );
  });
}

const DETAIL_CHARACTERS_MAX = 300;

function refusal(base: string, path: string, status: number, document: unknown): string {
  const { code, detail } = (document ?? {}) as { code?: unknown; detail?: unknown };
  const text = typeof detail === 'string' ? visibleLine(detail).slice(0, DETAIL_CHARACTERS_MAX) : '';
  switch (status) {
    case 401:
      return `${base} refused the API token: it expired or was revoked, or belongs to another Weir server.`;
    case 403:
      return `${base} refused the API token: ${text} weir listen creates an agent; create a token that may: weir token add --email E --name listen --role operator`;
    case 404:
      if (code === 'webhook_unknown') return `No webhook has the id ${path.split('/').at(-1)}.`;
      return `${base} has no api/v1/${path}; give the base URL of Weir's API.`;
    default:
      return `${base} answered api/v1/${path} with ${status}${text === '' ? '' : `: ${text}`}`;
  }
}
