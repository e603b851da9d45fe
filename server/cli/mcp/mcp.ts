/** `weir mcp`: lets an MCP client that starts its servers as commands reach POST /mcp of a Weir, or pushes events into its session. */
import type { Command } from 'commander';
import { CommandError, type CommandIo, printLine } from '../../base/command/io.ts';
import { openCredentialFile } from '../../deliver/client/credential.ts';
import { type ApiClient, type HttpAnswer, openApiClient, repeater, WeirError } from '../../deliver/client/http.ts';
import { AgentSession } from '../../deliver/client/session.ts';
import { parseAddress } from '../command/arguments.ts';
import { untilSignal } from '../command/run-command.ts';
import {
  eventReader,
  type Failure,
  failed,
  fieldsOf,
  isRequest,
  openStdio,
  type ProgramParts,
  REVISION,
  type RpcMessage,
  type RpcReply,
  type RpcRequest,
} from './messages.ts';

interface McpOptions {
  url: string;
  credentialFile: string;
  channel?: true;
  unverified?: true;
}

/**
 * Standard output carries JSON-RPC messages only. Exit code 0 when standard input ends, 1 when the credential file cannot be used. An
 * unreachable Weir is reported to the client as the error of each call.
 */
export function define(command: Command, io: CommandIo): void {
  command
    .requiredOption('--url <url>', 'base URL of the API, e.g. http://127.0.0.1:8080')
    .requiredOption('--credential-file <file>', 'file with the credential of an agent, or the API token of a user')
    .option(
      '--channel',
      'push each event of the agent into the Claude Code session that starts this command (research preview)',
    )
    .option('--unverified', 'with --channel: also events of webhooks that do not verify their requests')
    .action((options: McpOptions) => serve(options, io));
}

async function serve(options: McpOptions, io: CommandIo): Promise<void> {
  const { channel = false, unverified = false } = options;
  if (unverified && !channel) throw new CommandError('--unverified needs --channel.', 2);
  const url = parseAddress(options.url);
  const kinds = channel ? (['wa'] as const) : (['wa', 'wu'] as const);
  const { read, advice } = await openCredentialFile(options.credentialFile, io.directory, kinds).catch(asCommandError);
  if (advice !== null) printLine(io, advice);
  const report = (message: string) => printLine(io, `weir mcp: ${message}`);
  const send = (reply: RpcReply) => stdio.send(reply);
  const parts = { url, credential: read, unverified, send, report };
  // The channel is loaded on demand, with the schemas of the MCP server.
  const program = channel ? new (await import('./channel.ts')).Channel(parts) : new Bridge(parts);
  const stdio = openStdio(
    io,
    (message) => program.take(message),
    () => report('a line on standard input is not a JSON-RPC message.'),
  );
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  for (const event of ['end', 'close', 'error']) io.stdin.once(event, end);
  io.stdout.once('error', end);
  await untilSignal((stop) => {
    stop.addEventListener('abort', end);
    return Promise.race([ended, program.ended]);
  }).finally(async () => {
    stdio.close();
    await program.close().catch(asCommandError);
  });
}

function asCommandError(error: unknown): never {
  throw error instanceof WeirError ? new CommandError(error.message) : error;
}

/** wait_for_events takes at most 30 seconds. */
const ANSWER_TIMEOUT_MS = 60_000;

interface InFlight {
  cancel: AbortController;
  /** A long poll: nothing is lost when it is cancelled. */
  waits: boolean;
  done: Promise<void>;
}

/**
 * Passes the messages of one MCP client to POST /mcp, with a session of the agent or the token of a user, and the answers back. It keeps
 * nothing between messages but the session, so a restart of Weir costs at most the calls that it interrupts.
 */
class Bridge {
  readonly #client: ApiClient;
  readonly #session: AgentSession;
  readonly #parts: ProgramParts;
  /** Never settled: a call that fails is answered with an error. */
  readonly ended = new Promise<never>(() => {});
  readonly #inFlight = new Map<string | number, InFlight>();
  /** Negotiated revision of the protocol. Undefined: none, or each request states its own. */
  #revision: string | undefined;
  #reachable = true;

  constructor(parts: ProgramParts) {
    this.#parts = parts;
    this.#client = openApiClient(parts.url);
    // Each call is tried once: the model decides whether to try again, and its client does not wait for long.
    const repeat = repeater({
      base: this.#client.base,
      attemptsMax: 1,
      wait: async (ms) => {
        throw new WeirError('request_refused', this.#busy(ms), 'Wait, then call again.', {
          status: 429,
          problemCode: 'rate_limited',
        });
      },
    });
    this.#session = new AgentSession({ client: this.#client, readCredential: parts.credential, repeat, notify: null });
  }

  #busy(ms: number): string {
    return `${this.#client.base} refuses more sign-ins from this address for ${Math.ceil(ms / 1000)} seconds.`;
  }

  /** Cancels long polls, waits for the answers to other calls, and closes the connections. */
  async close(): Promise<void> {
    for (const { waits, cancel } of this.#inFlight.values()) if (waits) cancel.abort();
    await Promise.all([...this.#inFlight.values()].map(({ done }) => done));
    this.#client.close();
  }

  /** Passes a message of the client to Weir. */
  take(message: RpcMessage): void {
    if (!isRequest(message)) {
      // Other notifications concern a session, which the server does not have.
      const id = message.method === 'notifications/cancelled' ? message.params?.requestId : undefined;
      if (id !== undefined) this.#inFlight.get(id as string | number)?.cancel.abort();
      return;
    }
    const { id, method, params } = message;
    if (method === 'ping' && params?._meta?.[REVISION] === undefined)
      return this.#parts.send({ jsonrpc: '2.0', id, result: {} });
    const cancel = new AbortController();
    const waits = method === 'tools/call' && params?.name === 'wait_for_events';
    const done = this.#pass(message, cancel.signal).finally(() => this.#inFlight.delete(id));
    this.#inFlight.set(id, { cancel, waits, done });
  }

  /** Never rejects. */
  async #pass(request: RpcRequest, signal: AbortSignal): Promise<void> {
    let reply: RpcReply;
    const events = eventReader((notification) => {
      if (!signal.aborted) this.#parts.send(notification);
    });
    try {
      reply = this.#replyTo(request, await this.#post(request, signal, events.add), events.last());
    } catch (error) {
      const lost = error instanceof WeirError && error.code === 'unreachable';
      reply = failed(request, lost ? this.#unreachable('no session could be opened') : failureOf(error));
    }
    // A cancelled request is not answered.
    if (!signal.aborted) this.#parts.send(reply);
  }

  /** Sends a request, and once more after a 401 response: the session may have ended early, for example by a restart with other keys. */
  async #post(request: RpcRequest, signal: AbortSignal, onEvents: (chunk: Buffer) => void): Promise<HttpAnswer> {
    for (let refusals = 0; ; refusals++) {
      const credential = await this.#parts.credential();
      // Only agents have sessions.
      const token = credential.startsWith('wu_') ? credential : await this.#session.token(signal);
      if (token === null) return { kind: 'failed', name: 'ABORT_ERR' };
      const answer = await this.#client.send({
        method: 'POST',
        path: 'mcp',
        token,
        body: request,
        headers: { Accept: 'application/json, text/event-stream', ...fieldsOf(request, this.#revision) },
        onEvents,
        timeoutMs: ANSWER_TIMEOUT_MS,
        signal,
      });
      if (answer.kind === 'failed' || answer.status !== 401 || refusals > 0) return answer;
      this.#session.refused(token);
    }
  }

  #replyTo(request: RpcRequest, answer: HttpAnswer, streamed: unknown): RpcReply {
    if (answer.kind === 'failed') return failed(request, this.#unreachable(answer.name));
    this.#note(true, 'answers again.');
    const document = (answer.document ?? streamed ?? {}) as Record<string, unknown>;
    if (document.jsonrpc === '2.0') {
      const { protocolVersion } = (document.result ?? {}) as { protocolVersion?: string };
      if (request.method === 'initialize') this.#revision = protocolVersion;
      return { ...document, jsonrpc: '2.0', id: request.id };
    }
    if (typeof document.code === 'string') {
      const seconds = answer.retryAfterMs === null ? undefined : Math.ceil(answer.retryAfterMs / 1000);
      return failed(request, { ...(document as Failure), retry_after_seconds: seconds });
    }
    const detail = `${this.#client.base}mcp answered ${answer.status}; give the base URL of Weir's API as --url.`;
    return failed(request, { code: 'not_weir', detail });
  }

  #unreachable(name: string): Failure {
    const { base } = this.#client;
    if (name !== 'ABORT_ERR') this.#note(false, `did not answer: ${name}.`);
    const detail = `${base} did not answer: ${name}. It is restarting or cannot be reached; call again in a few seconds, and tell your user if it still fails.`;
    return { code: 'unreachable', detail };
  }

  /** One message when the server is lost, and one when it is back. */
  #note(reachable: boolean, what: string): void {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    this.#parts.report(`${this.#client.base} ${what}`);
  }
}

function failureOf(error: unknown): Failure {
  if (error instanceof WeirError)
    return { code: error.problemCode ?? error.code, detail: `${error.message} ${error.fix}` };
  return { code: 'internal', detail: `unexpected failure, please report it: ${String(error)}` };
}
